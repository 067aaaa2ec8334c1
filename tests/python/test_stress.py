"""tests/stress.py runs, and says so."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "stress.py"


def test_every_product_is_the_same_every_time():
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--shapes", "136x544", "--repeats", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = 4 * 2 * 2 * 2 * 9  # runs of a problem, formats, ops, results' types, numbers of rows
    assert f"{calls} calls, 0 wrong, all done" in done.stdout
