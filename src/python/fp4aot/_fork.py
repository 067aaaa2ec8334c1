"""Whether this process is a fork of one that had imported fp4aot. Imported with the package, before any fork."""

import os

in_child = False


def _note() -> None:
    global in_child
    in_child = True


os.register_at_fork(after_in_child=_note)
