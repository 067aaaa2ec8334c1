"""Processes and environments: fork, threads, no torch, instruction sets, the command line."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import fp4aot
import installed
import numpy as np
import pytest
import reference
import torch
from operands import bytes_of, random_rows

FORK = """
import os, sys
import numpy as np, torch
import fp4aot
torch.manual_seed(0)
x = torch.randn(512, 1024)
def work():
    codes, scales = fp4aot.quantize_nvfp4(x)
    return fp4aot.gemm_nvfp4(codes, codes, scales, scales, out_dtype=torch.float32)
expected = work() if sys.argv[1] == "used" else None
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            got = work()
            os._exit(0 if expected is None or torch.equal(got, expected) else 1)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(2)
    children.append(pid)
mine = work()
assert expected is None or torch.equal(mine, expected)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
print("done")
"""


# The parent's torch has threads; fp4aot's torch ops are loaded by the child.
FORK_FIRST = """
import os, sys
import fp4aot
import numpy as np, torch
torch.randn(1024, 1024) @ torch.randn(1024, 1024)
torch.randn(1 << 22).exp()
x = torch.randn(512, 1024, generator=torch.Generator().manual_seed(0))
assert "fp4aot.torch_ops" not in sys.modules
pid = os.fork()
codes, scales = fp4aot.quantize_nvfp4(x if sys.argv[1] == "tensors" else x.numpy())
if pid == 0:
    os._exit(int(len(codes) != 512))
assert os.waitpid(pid, 0)[1] == 0
print("done")
"""


@pytest.mark.parametrize("kind", ["tensors", "arrays"])
def test_fork_before_the_first_call(kind):
    environment = {"OMP_NUM_THREADS": "3", "FP4AOT_NUM_THREADS": None, "PYTHONWARNINGS": "ignore"}
    assert "done" in installed.python(FORK_FIRST, kind, env=environment).stdout


@pytest.mark.parametrize("state", ["unused", "used"])
def test_fork(state):
    """A child can use the ops whether the parent has (and so has started threads) or not; the parent goes on."""
    assert "done" in installed.python(FORK, state, env={"FP4AOT_NUM_THREADS": "4", "PYTHONWARNINGS": "ignore"}).stdout


def test_threads(device):
    """Threads that call at the same time, each with its own shapes, get their own right results."""
    failures = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(10):
                values = random_rows(rng, int(rng.integers(1, 200)), 16 * int(rng.integers(1, 20)), "special")
                codes, scales = fp4aot.quantize_nvfp4(torch.from_numpy(values).to(device), scale_layout="linear")
                expected = reference.quantize(values, "nvfp4")
                assert np.array_equal(bytes_of(codes), reference.pack_codes(expected[0]))
                assert np.array_equal(bytes_of(scales), expected[1])
                with pytest.raises(ValueError, match=f"k = {16 * seed + 8}"):
                    fp4aot.quantize_nvfp4(torch.zeros(1, 16 * seed + 8, device=device))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_large_product_from_two_threads():
    torch.manual_seed(0)
    codes, scales = fp4aot.quantize_mxfp4(torch.randn(512, 512))
    expected = fp4aot.gemm_mxfp4(codes, codes, scales, scales)
    results: list[torch.Tensor] = []

    def work() -> None:
        results.extend(fp4aot.gemm_mxfp4(codes, codes, scales, scales) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 10
    assert all(torch.equal(result, expected) for result in results)


INSTRUCTION_SETS = """
import hashlib, sys
import numpy as np
sys.modules["torch"] = None  # NumPy path: quick to start
import fp4aot
from operands_numpy import rows
digest = hashlib.sha256()
for kind in ("normal", "wide", "special"):
    x = rows(kind)
    for values in (x, x.astype(np.float16)):
        for layout in ("swizzled", "linear"):
            for global_scale in (1.0, 0.37, 2.0**100):
                for part in fp4aot.quantize_nvfp4(values, global_scale, scale_layout=layout):
                    digest.update(part.tobytes())
            for rounding in ("ceil", "floor"):
                for part in fp4aot.quantize_mxfp4(values, rounding=rounding, scale_layout=layout):
                    digest.update(part.tobytes())
        digest.update(fp4aot.nvfp4_global_scale(values).tobytes())
codes, scales = fp4aot.quantize_mxfp4(rows("normal"))
digest.update(fp4aot.dequantize_mxfp4(codes, scales).tobytes())
print(digest.hexdigest())
"""


def test_instruction_sets_give_the_same_bytes(tmp_path):
    """The fallbacks of the cpu image and any number of threads; each asked for in a process of its own."""
    (tmp_path / "operands_numpy.py").write_text(
        "import numpy as np\n"
        "def rows(kind):\n"
        "    rng = np.random.default_rng(1)\n"
        "    x = rng.standard_normal((257, 544)).astype(np.float32)\n"
        "    if kind == 'wide':\n"
        "        with np.errstate(all='ignore'):\n"
        "            exponents = rng.integers(-145, 125, (257, 1)) + rng.integers(-12, 3, x.shape)\n"
        "            x = np.ldexp(x, exponents).astype(np.float32)\n"
        "    if kind == 'special':\n"
        "        x[rng.random(x.shape) < 0.02] = np.nan\n"
        "        x[rng.random(x.shape) < 0.02] = -np.inf\n"
        "        x[rng.random(x.shape) < 0.2] = -0.0\n"
        "    return x\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    digests = {}
    for isa in ("portable", "avx2", "avx512", None):
        for threads in ("1", "3"):
            env = {"FP4AOT_CPU_ISA": isa, "FP4AOT_NUM_THREADS": threads, "PYTHONPATH": path}
            env["PYTHONWARNINGS"] = "ignore"
            digests[isa, threads] = installed.python(INSTRUCTION_SETS, env=env).stdout.strip()
    assert len(set(digests.values())) == 1, digests


PRODUCT = """
import sys
import numpy as np
sys.modules["torch"] = None
import fp4aot, reference
rng = np.random.default_rng(0)
for format in ("nvfp4", "mxfp4"):
    for m, n, k in ((1, 24, 96), (5, 8, 32), (70, 136, 480)):
        vector = reference.VECTOR[format]
        operands = []
        for rows in (m, n):
            codes = rng.integers(0, 16, (rows, k)).astype(np.uint8)
            low = 0x28 if format == "nvfp4" else 124
            scales = rng.integers(low, low + 8, (rows, k // vector)).astype(np.uint8)
            operands.append((codes, scales))
        arguments = [reference.pack_codes(codes) for codes, _ in operands]
        arguments += [reference.swizzle(scales) for _, scales in operands]
        values = [reference.dequantize(codes, scales, format) for codes, scales in operands]
        for dtype, name in ((np.float32, "fp32"), (np.float16, "fp16")):
            out = getattr(fp4aot, "gemm_" + format)(*arguments, 0.125, out_dtype=dtype)
            assert out.dtype == dtype
            reference.assert_product(out, reference.product(*values, 0.125), k, name, norm=False)
print("done")
"""


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_products_of_every_instruction_set(isa):
    if isa == "avx512" and "avx512bw" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")  # it would silently test AVX2 again
    assert "done" in installed.python(PRODUCT, env={"FP4AOT_CPU_ISA": isa}).stdout


def test_import_is_light():
    """fp4aot imports neither torch nor numpy by itself, and quickly: torch is the caller's choice."""
    code = """
import sys, time
start = time.perf_counter()
import fp4aot
print(time.perf_counter() - start)
assert "torch" not in sys.modules and "numpy" not in sys.modules, "fp4aot imported torch or numpy"
"""
    seconds = min(float(installed.python(code).stdout) for _ in range(3))
    assert seconds < 0.1


def test_import_with_torch_adds_little():
    code = """
import torch, time
start = time.perf_counter()
import fp4aot
print(time.perf_counter() - start)
torch.ops.fp4aot.quantize_nvfp4
"""
    seconds = min(float(installed.python(code).stdout) for _ in range(3))
    assert seconds < 0.2, "100 ms is the aim; twice that on a loaded machine is a regression"


def test_torch_imported_later():
    code = """
import fp4aot
import torch
codes, scales = fp4aot.quantize_nvfp4(torch.ones(4, 32))
assert codes.dtype == torch.uint8
torch.ops.fp4aot.gemm_nvfp4
print("done")
"""
    assert "done" in installed.python(code).stdout


def test_cuda_request_without_a_driver(tmp_path):
    """A clear error that names the driver, from the NumPy-only package too."""
    (tmp_path / "libcuda.so.1").write_text("not a library")
    code = """
import sys
sys.modules["torch"] = None
import fp4aot
assert not fp4aot.supports("gemm_nvfp4", "cuda:0")
try:
    fp4aot.preload("cuda:0")
except fp4aot.LoadError as error:
    assert "libcuda.so.1" in str(error) and "driver" in str(error)
    print("done")
"""
    assert "done" in installed.python(code, env={"LD_LIBRARY_PATH": str(tmp_path)}).stdout


def test_force_image_of_the_cpu_does_not_serve_cuda(tmp_path):
    code = """
import fp4aot
assert fp4aot.image_name("cpu") == "cpu"
print(fp4aot.info()["force_image"])
"""
    assert installed.python(code, env={"FP4AOT_FORCE_IMAGE": "sm90a"}).stdout.strip() == "sm90a"


def test_info_json():
    done = subprocess.run([sys.executable, "-m", "fp4aot", "info", "--json"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    images = {image["name"]: image for image in info["images"]}
    assert set(installed.image_names()) <= set(images)
    for name in installed.image_names():
        assert images[name]["error"] == ""
        assert {"quantize_nvfp4", "gemm_nvfp4", "gemm_mxfp4"} <= set(images[name]["ops"])
    assert images["cpu"]["ops"]
    assert images["cpu"]["capability"] is None
    assert info["version"] == fp4aot.__version__
    for image in info["images"]:
        if image["name"] not in installed.image_names():
            assert image["error"], "an image that is not there is explained"


def test_info_text():
    done = subprocess.run([sys.executable, "-m", "fp4aot", "info"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    for piece in (fp4aot.__version__, "cpu", "gemm", "quantize", "driver"):
        assert piece in done.stdout


def test_unknown_command():
    done = subprocess.run([sys.executable, "-m", "fp4aot", "nonsense"], capture_output=True, text=True, cwd="/")
    assert done.returncode != 0
    assert "nonsense" in done.stderr
