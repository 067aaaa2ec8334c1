"""A fork while another thread is in its first call: the child must not inherit a lock that nobody will release."""

import installed

PROGRAM = """
import os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
import c_abi
library = c_abi.load()
first = library.fp4aot_info_json if sys.argv[2] == "info" else lambda: library.fp4aot_preload(c_abi.CPU)
thread = threading.Thread(target=first)
thread.start()
time.sleep(float(sys.argv[3]))
child = os.fork()
if child == 0:
    signal.alarm(10)
    library.fp4aot_info_json()
    os._exit(0 if library.fp4aot_preload(c_abi.CPU) == c_abi.OK else 1)
thread.join()
assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"
"""


def test_fork_during_the_first_call():
    for attempt in range(24):
        first = "info" if attempt % 3 == 0 else "preload"
        delay = attempt % 8 * 1e-4
        installed.python(PROGRAM, __file__.rpartition("/")[0], first, str(delay), env={"PYTHONWARNINGS": "ignore"})
