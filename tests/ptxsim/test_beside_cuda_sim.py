"""The stand-in CUDA runtime beside a real one in the same process."""

import os
import subprocess
import sys

import installed
import pytest

from . import build

pytestmark = [pytest.mark.ptxsim, pytest.mark.build]

CLIENT = """
extern "C" int cudaGetDeviceCount(int*);
extern "C" int ask(int* count) { return cudaGetDeviceCount(count); }
"""
FOREIGN = """
import ctypes as c, sys
c.CDLL(sys.argv[1] + "/libforeign.so", mode=c.RTLD_GLOBAL)
count = c.c_int(-1)
code = c.CDLL(sys.argv[1] + "/client.so").ask(c.byref(count))
print(code, count.value)
"""


def test_a_runtime_in_the_global_scope_is_not_taken_for_this_one(tmp_path):
    """As torch built for CUDA brings one along."""
    (tmp_path / "foreign.cpp").write_text('extern "C" int cudaGetDeviceCount(int*) { return 999; }\n')
    (tmp_path / "foreign.map").write_text("libcudart.so.13 { global: *; };\n")
    (tmp_path / "client.cpp").write_text(CLIENT)
    shared = [installed.compiler(), "-shared", "-fPIC"]
    installed.run(*shared, tmp_path / "foreign.cpp", f"-Wl,--version-script={tmp_path / 'foreign.map'}",
                  "-o", tmp_path / "libforeign.so")  # fmt: skip
    (tmp_path / "libptxsim.so").symlink_to(build.simulator())
    installed.run(*shared, tmp_path / "client.cpp", tmp_path / "libptxsim.so", "-Wl,-rpath,$ORIGIN",
                  "-o", tmp_path / "client.so")  # fmt: skip
    environment = dict(os.environ, FP4AOT_SIM="sm90a")
    command = [sys.executable, "-c", FOREIGN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout == "0 1\n", done.stdout + done.stderr
