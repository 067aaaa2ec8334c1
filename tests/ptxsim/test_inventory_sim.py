"""Nothing of an image is left out: every image is simulated, every kernel in its PTX was run, and every tactic."""

import functools
import re

import installed
import pytest

from . import build, suite, w4a16_suite
from .worker import Worker

pytestmark = pytest.mark.ptxsim


def test_every_installed_image_is_simulated():
    installed.need(build.images(), "no build folder with an image for GPUs: build one here or set FP4AOT_BUILD_DIR")
    present = [name for name in build.cuda_image_names() if name in installed.image_names()]
    assert set(present) <= set(build.images()), f"installed {present}, but {build.build_folder()} has {build.images()}"


@functools.cache
def tactics(image: str) -> dict[str, set[str]]:
    """Names of the tactics of each op that has some."""
    worker = Worker(image, build.simulated_image(image), threads=1)
    ops = worker.describe()
    worker.close()
    return {op: set(names.values()) for op, names in ops.items() if names}


@pytest.mark.parametrize("image", build.images())
def test_every_kernel_was_run(results, image):
    cases = [case for case in suite.all_cases() if case.image == image]
    launched = {name for case in cases for name in results.report(case).launched}
    missing = sorted(set(build.kernels(image)) - launched)
    assert not missing, f"{len(missing)} kernels of {image} are reached by no problem of suite.py: {missing}"
    assert launched <= set(build.kernels(image))


@pytest.mark.parametrize("image", build.images())
def test_every_tactic_was_run(results, image):
    """On parts of tiles."""
    ran: dict[str, set[str]] = {}
    for case in suite.all_cases():
        if case.image == image and getattr(case.problem, "m", 0) % 16:
            ran.setdefault(case.problem.op, set()).update(results.report(case).ran)
    assert tactics(image)
    for op, names in tactics(image).items():
        assert names <= ran[op], f"{op} on {image}: no problem of suite.py runs {sorted(names - ran[op])} so"


def test_table_of_kernels_names_tactics():
    """An expression that finds no tactic any more would leave its problems without any."""
    installed.need(build.images(), "no build folder with an image for GPUs: build one here or set FP4AOT_BUILD_DIR")
    names = {
        name for image in build.images() for op, found in tactics(image).items() if "w4a16" in op for name in found
    }
    if set(build.images()) != set(build.cuda_image_names()):
        pytest.skip("not every image was built")
    for kernel in w4a16_suite.KERNELS:
        for wanted in (kernel.some, kernel.fp32, kernel.chains, *(shape[-1] for shape in kernel.shapes)):
            assert not wanted or any(re.search(wanted, name) for name in names), f"{wanted} is in no tactic's name"
