"""What a fork has to do with: whether this process is a fork of one that had imported fp4aot, and a lock that no fork
tears. Imported with the package, before any fork."""

import contextlib
import os
from _thread import RLock

in_child = False
longest_wait = 10.0  # seconds that a fork waits: an import that itself waits for the thread that forks would never end

# Held while a part of the package is imported at its first use. Python's own locks of modules stay as they are in a
# child, which would wait for ever for the thread that was importing: it has only the one that forked.
importing = RLock()


def _before() -> None:
    importing.acquire(timeout=longest_wait)


def _in_parent() -> None:
    with contextlib.suppress(RuntimeError):  # the time was over
        importing.release()


def _in_child() -> None:
    global importing, in_child
    in_child = True
    try:
        importing.release()
    except RuntimeError:  # the time was over, and the thread that has the lock is not in this process
        importing = RLock()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
