"""A machine with CUDA devices that are not there."""

import shutil
from pathlib import Path

import c_abi
import installed
import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Folder with a fake libcuda.so.1, libnvidia-ml.so.1, and sm90a image."""
    folder = tmp_path_factory.mktemp("fakes")
    driver = installed.build_library(HERE / "fake_driver.cpp", folder / "libcuda.so.1")
    shutil.copy(driver, folder / "libnvidia-ml.so.1")
    macros = {"MAJOR": 1, "MINOR": 0, "SLOTS": len(c_abi.OPS), "MISSING": -1, "NAME": '"sm90a"', "WORKSPACE": 0}
    defines = [f"-D{name}={value}" for name, value in {**macros, "TOOLKIT": 13000}.items()]
    installed.build_library(HERE / "fake_image.cpp", folder / "libfp4aot_sm90a.so", *defines, "-Wno-unused")
    return folder
