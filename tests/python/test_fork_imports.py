"""Forks while another thread is in its first call, which imports: a child inherits the locks of the modules that a
thread which it lacks was importing, and Python never frees them."""

import textwrap

import installed

# The import of a part that the ops need, or of numpy.ma, is made slow, so that the forks come in its middle.
PROGRAM = """
import sys
sys.modules["torch"] = None
import os, signal, threading, time
import fp4aot
import numpy as np

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            time.sleep(1)

def first_use():
    if threading.current_thread() is not threading.main_thread() and sys.argv[1] == "numpy.ma":
        np.ma
    assert fp4aot.quantize_nvfp4(np.ones((4, 64), np.float32))[0].shape == (4, 32)

sys.meta_path.insert(0, Slow)
thread = threading.Thread(target=first_use)
thread.start()
time.sleep(0.3)
for child in range(2):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        first_use()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child hung or failed"
first_use()
thread.join()
print("done")
"""
ENVIRONMENT = {"PYTHONWARNINGS": "ignore"}


def test_fork_while_another_thread_imports_a_part():
    assert "done" in installed.python(PROGRAM, "fp4aot._arrays", env=ENVIRONMENT).stdout


def test_fork_while_another_thread_imports_masked_arrays():
    """NumPy imports numpy.ma when it is first named: no op may name it."""
    assert "done" in installed.python(PROGRAM, "numpy.ma", env=ENVIRONMENT).stdout


def test_fork_in_the_middle_of_an_import():
    """A thread that forks while it imports a part itself has the lock already; its child goes on with the import."""
    code = """
        import sys
        sys.modules["torch"] = None
        import os, signal
        import fp4aot
        import numpy as np

        class Forks:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == "fp4aot._arrays":
                    sys.meta_path.remove(Forks)
                    Forks.child = os.fork()

        sys.meta_path.insert(0, Forks)
        signal.alarm(20)
        assert fp4aot.quantize_nvfp4(np.ones((4, 64), np.float32))[0].shape == (4, 32)
        if Forks.child == 0:
            os._exit(0)
        assert os.waitpid(Forks.child, 0)[1] == 0, "the child hung or failed"
        print("done")
    """
    assert "done" in installed.python(textwrap.dedent(code), env=ENVIRONMENT).stdout


def test_fork_while_an_import_never_ends():
    """The fork goes on after a time, and its child, which lacks the thread that imports, may import other parts."""
    code = """
        import os, signal, threading
        import fp4aot
        from fp4aot import _fork

        _fork.longest_wait = 0.2
        held = threading.Event()

        def never_ends():
            with _fork.importing:
                held.set()
                threading.Event().wait()

        threading.Thread(target=never_ends, daemon=True).start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            assert fp4aot.info is not None
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, "the child hung or failed"
        assert not _fork.importing.acquire(blocking=False), "the parent's lock was torn"
        print("done", flush=True)
        os._exit(0)
    """
    assert "done" in installed.python(textwrap.dedent(code), env=ENVIRONMENT).stdout
