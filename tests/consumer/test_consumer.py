"""find_package(fp4aot) in a project of a user, against the installed package alone."""

import shutil
import subprocess
import sys
from pathlib import Path

import fp4aot
import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parent


def tool(name: str) -> str | None:
    """A program beside this Python (where pip puts it) or on PATH."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def cmake() -> str:
    found = tool("cmake")
    installed.need(found, "no cmake: pip install cmake")
    return str(found)


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("consumer")
    printed = installed.run(sys.executable, "-m", "fp4aot", "cmake-dir", cwd="/").stdout.strip()
    assert Path(printed).resolve() == installed.cmake_dir().resolve()
    compilers = [f"-DCMAKE_CXX_COMPILER={installed.compiler()}", f"-DCMAKE_C_COMPILER={installed.compiler('c')}"]
    ninja = tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    installed.run(cmake(), *generator, "-S", SOURCE, "-B", folder, f"-Dfp4aot_DIR={printed}", *compilers)
    installed.run(cmake(), "--build", folder)
    return folder


def test_product(build):
    assert "error of the product" in installed.run(build / "product").stdout


def test_w4a16(build):
    """Bytes: two 16 x 64 tiles of rows and of k, codes and scales."""
    lines = installed.run(build / "w4a16").stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        f"gemm_w4a16_nvfp4: {2 * 2 * (512 + 64)} bytes",
        f"gemm_w4a16_mxfp4: {2 * 2 * (512 + 32)} bytes",
    ]


def test_version_from_c(build):
    version, abi, supports = installed.run(build / "version").stdout.split()
    assert version == fp4aot.__version__
    assert int(abi) >> 16 == 1
    assert supports == "1"


def test_a_newer_version_is_refused(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(x LANGUAGES CXX)\nfind_package(fp4aot 999 REQUIRED CONFIG)\n"
    )
    command = [cmake(), "-S", tmp_path, "-B", tmp_path / "build", f"-Dfp4aot_DIR={installed.cmake_dir()}"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode != 0
    assert "999" in done.stderr
    assert fp4aot.__version__ in done.stderr
