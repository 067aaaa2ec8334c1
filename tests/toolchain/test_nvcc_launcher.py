"""cmake/nvcc_launcher.py: what it keeps of a compilation, with ccache and without, and what it does not let through."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import installed
import pytest

pytestmark = pytest.mark.build

CMAKE = Path(__file__).parents[2] / "cmake"

# Products in flight whose accumulator is touched between them, so that ptxas makes each wait; or not touched.
UNIT = """
#include <cstdint>

__device__ void product(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}

__global__ void kernel(float* out, uint64_t a, uint64_t b) {
  float d[4];
  for (int i = 0; i < 4; i++) d[i] = out[threadIdx.x * 4 + i];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  product(d, a, b);
  TOUCH
  product(d, a + 2, b + 2);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
"""


@pytest.fixture(params=["ccache", "no ccache"])
def launch(request, tmp_path):
    """Compiles a unit through the launcher, with its caches in a folder of the test."""
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc")
    installed.need(nvcc, "no nvcc: set CUDACXX")
    path = os.environ["PATH"].split(os.pathsep)
    if request.param == "ccache":
        if not shutil.which("ccache"):
            pytest.skip("no ccache")
    else:
        path = [folder for folder in path if not (Path(folder) / "ccache").exists()]
        tools = tmp_path / "tools"
        tools.mkdir()
        for tool in ("gcc", "g++", "sh", "env", "as", "ld", "cc1plus", "cat", "rm", "sed"):
            if found := shutil.which(tool):
                (tools / tool).symlink_to(found)
        path.append(str(tools))
    target = re.search(r'"sm90a +\S+ +(\S+)', (CMAKE / "images.cmake").read_text()).group(1)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "CCACHE_DIR": str(tmp_path / "ccache"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def run(touch: str) -> subprocess.CompletedProcess:
        (tmp_path / "unit.cu").write_text(UNIT.replace("TOUCH", touch))
        command = [sys.executable, CMAKE / "nvcc_launcher.py", tmp_path, nvcc, "-O3"]
        command += ["-gencode", f"arch=compute_{target},code=sm_{target}"]
        command += ["-c", tmp_path / "unit.cu", "-o", tmp_path / "unit.cu.o"]
        return subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)

    return run


def test_a_unit_and_its_ptx(launch, tmp_path):
    for _ in range(2):  # the second comes from the cache, where there is one
        done = launch("")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "unit.cu.o").stat().st_size > 0
        assert "wgmma.mma_async" in (tmp_path / "unit.cu.o.ptx").read_text()
        (tmp_path / "unit.cu.o").unlink()
        (tmp_path / "unit.cu.o.ptx").unlink()


def test_serialised_products_are_an_error(launch, tmp_path):
    for _ in range(2):
        done = launch("d[0] += 1.0f;")
        assert "are serialized" in done.stderr, "ptxas: else the unit must be another"
        assert "unit.cu: error: products of wgmma are serialised" in done.stderr
        assert done.returncode == 1
        assert not (tmp_path / "unit.cu.o").exists()


def test_an_error_of_the_compiler_is_passed_on(launch):
    done = launch("undeclared();")
    assert done.returncode != 0
    assert "undeclared" in done.stderr
