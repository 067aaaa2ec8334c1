"""Nothing of an image is left out: every image is simulated, and every kernel in its PTX was run."""

import installed
import pytest

from . import build, suite

pytestmark = pytest.mark.ptxsim


def test_every_installed_image_is_simulated():
    installed.need(build.images(), "no build folder with an image for GPUs: build one here or set FP4AOT_BUILD_DIR")
    present = [name for name in build.cuda_image_names() if name in installed.image_names()]
    assert set(present) <= set(build.images()), f"installed {present}, but {build.build_folder()} has {build.images()}"


@pytest.mark.parametrize("image", build.images())
def test_every_kernel_was_run(results, image):
    cases = [case for case in suite.all_cases() if case.image == image]
    launched = {name for case in cases for name in results.report(case).launched}
    missing = sorted(set(build.kernels(image)) - launched)
    assert not missing, f"{len(missing)} kernels of {image} are reached by no problem of suite.py: {missing}"
    assert launched <= set(build.kernels(image))
