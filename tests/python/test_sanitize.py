"""tests/sanitize.py: which reports of a tool it counts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sanitize

# As compute-sanitizer 2025.3 writes it; the frames between are left out.
COPY = """\
========= Host API memory access error at host access to 0x7f256c847e00 of size 8 bytes
=========     Uninitialized access to 0x7f256c847e00 on access by cudaMemcpy source
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame:  [0x42330] in libcudart.so.13
=========         Host Frame: cudaMemcpyAsync [0x70eec] in libcudart.so.13
=========         Host Frame: at::native::_local_scalar_dense_cuda(at::Tensor const&) [0x16a7cd4] in libtorch_cuda.so
=========         Host Frame: at::_ops::_local_scalar_dense::call(at::Tensor const&) [0x2b45cb4] in libtorch_cpu.so
=========
"""
READ = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at fp4aot::prepare_kernel(fp4aot::PrepareArgs)+0x4f0
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f256c847e00
=========         Host Frame: fp4aot::launch [0x42330] in libfp4aot_sm90a.so
=========
"""
FRAME = next(line + "\n" for line in COPY.splitlines() if "_local_scalar_dense_cuda" in line)


def summary(count: int) -> str:
    return f"3 calls, 0 wrong, all done\n========= ERROR SUMMARY: {count} errors\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (COPY, 1),
        (f"1 calls, 0 wrong: gemm\n{COPY}{COPY}{summary(2)}", 2),
        (COPY.replace("of size 8", "of size 4"), 0),  # a result of ours, such as a global scale
        (COPY.replace(FRAME, ""), 0),  # copied by something else
        (COPY.replace(FRAME, "") + READ.replace("=========\n", FRAME), 0),  # the frame is another report's
        (COPY.replace("cudaMemcpy source", "cudaMemset"), 0),
        (READ.replace("=========\n", FRAME), 0),  # a kernel's access
        (summary(0), 0),
    ],
)
def test_what_torch_copies_to_the_host(output, expected):
    assert sanitize.unwatched(output) == expected


@pytest.mark.parametrize(
    ("tool", "body", "errors", "expected", "said"),
    [
        ("initcheck", COPY + COPY, 2, True, "0 reports but 2 of torch; 3 calls, 0 wrong, all done"),
        ("initcheck", COPY + READ, 2, False, "1 reports but 1 of torch; 3 calls, 0 wrong, all done"),
        ("initcheck", COPY, 30, False, "29 reports but 1 of torch"),  # those beyond --print-limit count
        ("initcheck", READ, 1, False, "1 reports; 3 calls"),
        ("initcheck", "", 0, True, "0 reports; 3 calls"),
        ("memcheck", COPY, 1, False, "1 reports; 3 calls"),
    ],
)
def test_reports_that_count(tmp_path, capsys, tool, body, errors, expected, said):
    stand_in = tmp_path / "compute-sanitizer"
    stand_in.write_text(f"#!{sys.executable}\nprint({body + summary(errors)!r})\n")
    stand_in.chmod(0o755)
    assert sanitize.check(str(stand_in), tool, "gemm_w4a16", "nvfp4", seconds=60) is expected
    assert f"{tool} gemm_w4a16 nvfp4: {said}" in capsys.readouterr().out


def test_a_tool_that_says_nothing_is_no_success(tmp_path, capsys):
    stand_in = tmp_path / "compute-sanitizer"
    stand_in.write_text(f"#!{sys.executable}\nprint('3 calls, 0 wrong, all done')\n")
    stand_in.chmod(0o755)
    assert sanitize.check(str(stand_in), "initcheck", "gemm", "nvfp4", seconds=60) is False
    assert "no reports" in capsys.readouterr().out


def test_tools_end_with_the_script(tmp_path):
    stand_in, pid_file = tmp_path / "compute-sanitizer", tmp_path / "pid"
    stand_in.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nfrom pathlib import Path\n"
        "print('7 calls, 0 wrong: the eighth', flush=True)\n"
        "sys.stdout.buffer.write(b'\\xe2\\x82'), sys.stdout.flush()\n"  # cut inside of a character
        f"Path({str(tmp_path / 'new')!r}).write_text(str(os.getpid()))\n"
        f"os.rename({str(tmp_path / 'new')!r}, {str(pid_file)!r})\ntime.sleep(300)\n"
    )
    stand_in.chmod(0o755)
    command = [sys.executable, sanitize.__file__, "--tools", "memcheck", "--ops", "gemm", "--jobs", "1"]  # one waits
    environment = {**os.environ, "COMPUTE_SANITIZER": str(stand_in)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as script:
        deadline = time.monotonic() + 60
        while not pid_file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        tool = int(pid_file.read_text())
        script.send_signal(signal.SIGTERM)
        said, _ = script.communicate(timeout=60)
        assert script.returncode == 128 + signal.SIGTERM
    assert said == "memcheck gemm nvfp4: not ended; 7 calls, 0 wrong: the eighth\n"
    while _runs(tool) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(tool)


def _runs(process: int) -> bool:
    """Whether it is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
