"""Single instructions on the simulator and on a real H200: the same program, conformance/, must print the same.

conformance/h200.txt.gz is what it printed on an NVIDIA H200 (driver 580.159.04, nvcc 13.0.88) on 2026-11-29:

    nvcc -std=c++17 -O1 -gencode arch=compute_90a,code=sm_90a conformance/*.cu -o conformance && ./conformance

A line is a case: its name, then words in hexadecimal. Changing the program needs a new record.
"""

import gzip
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import installed
import pytest

from . import build

pytestmark = [pytest.mark.ptxsim, pytest.mark.build, pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "conformance"
SOURCES = sorted(HERE.glob("*.cu"))

PROGRAM = """
import ctypes, sys
simulator = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(sys.argv[2])
library.conformance()
simulator.ptxsim_findings_json.restype = ctypes.c_char_p
print("findings", simulator.ptxsim_findings_json().decode())
"""

# Largest relative error that the PTX ISA (9.7.3) states for an instruction that is not exact, and the hardware's own
# against a correctly rounded one may add up to twice that. lg2's is absolute near 1.
ERRORS = {
    "approx_ex2_ftz": 2**-22,
    "approx_ex2": 2**-22,
    "approx_rcp_ftz": 2**-23,
    "approx_lg2": 2**-22,
    "approx_rsqrt": 2**-22.4,
    "approx_sqrt": 2**-22.4,
    "approx_tanh": 2**-10.987,
}


def parse(text: str) -> dict[str, list[int]]:
    lines = [line.split() for line in text.splitlines()]
    failed = [" ".join(line) for line in lines if "failed:" in line]
    assert not failed, "\n".join(failed)
    return {name: [int(word, 16) for word in words] for name, *words in lines}


def number(word: int) -> float:
    return struct.unpack("<f", struct.pack("<I", word))[0]


def alike(name: str, ours: int, theirs: int) -> bool:
    if name not in ERRORS or ours == theirs:
        return ours == theirs
    a, b = number(ours), number(theirs)
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isnan(a) and math.isnan(b)
    slack = 2 * ERRORS[name] * (max(1.0, abs(b)) if name == "approx_lg2" else abs(b))
    return abs(a - b) <= slack + 2**-149


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, list[int]]:
    """What the program prints on the simulator; without findings."""
    toolchain = build._toolchain()
    try:
        nvcc = toolchain.find_nvcc()
    except toolchain.Missing as error:
        installed.need(False, str(error))
    folder = tmp_path_factory.mktemp("conformance")
    objects, ptx = [], []
    for source in SOURCES:
        keep, target = folder / source.stem, folder / f"{source.stem}.o"
        keep.mkdir()
        installed.run(nvcc, "-std=c++17", "-O1", "-lineinfo", "-gencode", "arch=compute_90a,code=sm_90a", "--keep",
                      "--keep-dir", keep, "-Xcompiler=-fPIC", "-c", source, "-o", target)  # fmt: skip
        objects.append(target)
        ptx += sorted(keep.glob("*.ptx"))
    library = folder / "libconformance.so"
    installed.run(installed.compiler(), "-shared", "-o", library, *objects, build.simulator(),
                  f"-Wl,-rpath,{build.simulator().parent}")  # fmt: skip
    Path(f"{library}.ptx-list").write_text("".join(f"{path}\n" for path in ptx))
    command = [sys.executable, "-c", PROGRAM, str(build.simulator()), str(library)]
    environment = build.environment("sm90a", folder)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    *lines, findings = done.stdout.splitlines()
    seen = json.loads(findings.removeprefix("findings "))
    assert not seen, "\n".join(f"{f['kernel']}: {f['check']}: {f['message']}" for f in seen)
    return parse("\n".join(lines))


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[int]]:
    return parse(gzip.decompress((HERE / "h200.txt.gz").read_bytes()).decode())


def test_the_same_cases(printed, recorded):
    assert list(printed) == list(recorded)
    assert len(recorded) > 150
    assert set(ERRORS) <= set(recorded)


def test_the_same_words(printed, recorded):
    wrong = []
    for name, words in recorded.items():
        ours = printed[name]
        assert len(ours) == len(words), name
        places = [i for i, (a, b) in enumerate(zip(ours, words, strict=True)) if not alike(name, a, b)]
        if places:
            i = places[0]
            wrong.append(f"{name}: {len(places)} of {len(words)}, first [{i}] {ours[i]:#x}, H200 {words[i]:#x}")
    assert not wrong, "\n".join(wrong)
