"""tests/python on a simulated GPU: `FP4AOT_SIM=sm103a python -m pytest tests/python`.

With FP4AOT_SIM the package's calls on CPU tensors and arrays run on the image of that name (python/host_calls.cpp takes
the place of libfp4aot.so in a copy of the installed package): the tests, the Python layers, the torch binding, core and
the image are those that run on a GPU. conftest.py of the tests calls what is here.

Of the tests those of RUN are run, without those of LEFT_OUT, with fewer random examples (FP4AOT_TESTS_EXAMPLES).
"""

import os
import re
import shutil
import sys
from pathlib import Path

import installed
import pytest

from . import build

READY = "FP4AOT_SIM_READY"  # set in the process that has the simulated device
EXAMPLES = "2"  # of each hypothesis test

RUN = (
    "test_edge_cases",
    "test_errors",
    "test_fused",
    "test_gemm",
    "test_global_scale",
    "test_layouts",
    "test_quantize",
)
# What is left out of them: a pattern of test ids -> why.
LEFT_OUT = {
    "131073|131_073|1000003|65536|many_rows|4096-512": "large: each takes seconds here",
    r"test_shapes\[cpu-(1-4096|8-1024|64-512|65-136|513|1024)": "large as well",
    r"test_shapes\[cpu-129-392-1056-\w+-(bf16|fp32)": "as large, and with fp16 it is run",
    r"test_deterministic\[cpu-(256|1-512)": "large as well",
    r"-(200|300|257|130)-(nvfp4|mxfp4)\]|cpu-(200|300|257|130)-(nvfp4|mxfp4)\]": "ptxsim/test_gemm_sim.py has waves",
    r"32768-\w+-(bf16|fp16)|200-1024-0-(\w+-)?(bf16|fp16)": "one type is enough of what takes long",
    "test_every_tactic": "ptxsim/test_gemm_sim.py runs every tactic",
    "flush_to_zero": "of the CPU's arithmetic",
}


def simulated() -> bool:
    """Whether this process has the simulated device."""
    return bool(os.environ.get(READY))


def _package(image: str) -> Path:
    """A folder with a copy of the installed package whose libfp4aot.so is host_calls.cpp."""
    folder = build.output_folder() / "python" / image
    package = folder / "fp4aot"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(installed.package_root(), package, ignore=shutil.ignore_patterns("__pycache__", "libfp4aot_sm*"))
    (package / "lib" / "libfp4aot.so").unlink()
    installed.build_library(
        Path(__file__).parent / "python" / "host_calls.cpp",
        package / "lib" / "libfp4aot.so",
        "-fvisibility=hidden",
        "-Wl,-soname,libfp4aot.so",
    )
    return folder


def environment(image: str, folder: Path | None = None) -> dict[str, str]:
    """Variables of a process whose fp4aot runs on the simulated device. folder: a build.mutated_image."""
    variables = build.environment(image, folder or build.simulated_image(image))
    paths = [str(_package(image)), variables.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    variables["FP4AOT_TESTS_DEVICES"] = "cpu"
    variables.setdefault("FP4AOT_TESTS_EXAMPLES", EXAMPLES)
    variables[READY] = "1"
    return variables


def restart(config: pytest.Config) -> None:
    """Runs the same tests in this process anew, with the environment that the simulated device needs."""
    image, built = os.environ["FP4AOT_SIM"], build.images()
    if image not in built:
        raise pytest.UsageError(f"FP4AOT_SIM={image}: the images that were built are {', '.join(built) or 'none'}")
    variables = environment(image)
    if capture := config.pluginmanager.getplugin("capturemanager"):
        capture.stop_global_capturing()
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *config.invocation_params.args], variables)


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the tests that do not run on the simulated device out of items."""
    kept, left = [], []
    for item in items:
        chosen = not any(re.search(part, item.nodeid) for part in LEFT_OUT)
        (kept if chosen else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def summary() -> str:
    """What ran on the device."""
    import fp4aot
    from fp4aot import _loader

    calls = _loader.library().fp4aot_simulated_calls()
    return f"{calls} calls ran on the simulated device of image {fp4aot.image_name('cpu')}"
