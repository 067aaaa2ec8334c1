"""fp4aot_set_cpu_executor: CPU work on the threads of the program, and whose threads they are when several could be."""

import ctypes
import os
import threading

import c_abi
import installed
import numpy as np
import pytest

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import test_executor
test_executor.{function}()
print("done")
"""


def in_new_process(function: str, **environment: str) -> str:
    code = PROGRAM.format(function=function)
    return installed.python(code, os.path.dirname(__file__), env=environment).stdout


class Pool:
    """An executor that remembers what it was asked, and fails if a task comes twice or not at all."""

    def __init__(self, threads: int) -> None:
        self.runs: list[int] = []
        self.asked = 0
        self.struct = c_abi.Executor(
            ctypes.sizeof(c_abi.Executor), c_abi.RUN_TASKS(self.run), c_abi.COUNT_THREADS(self.threads), 7
        )
        self.count = threads

    def threads(self, user: int) -> int:
        assert user == 7
        self.asked += 1
        return self.count

    def run(self, user: int, count: int, task, context: int) -> None:
        assert user == 7
        self.runs.append(count)
        workers = [threading.Thread(target=task, args=(context, i)) for i in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def product(library) -> np.ndarray:
    """A product large enough for several threads; its result."""
    m, n, k = 96, 512, 512
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 256, (rows, k // 2)).astype(np.uint8) for rows in (m, n)]
    scales = [rng.integers(0x30, 0x40, -(-rows // 128) * 128 * (k // 16)).astype(np.uint8) for rows in (m, n)]
    aligned = [np.zeros(array.nbytes + 16, np.uint8) for array in (*codes, *scales)]
    places = []
    for place, array in zip(aligned, (*codes, *scales), strict=True):
        start = -place.ctypes.data % 16
        place[start : start + array.nbytes] = array.reshape(-1)
        places.append(place.ctypes.data + start)
    d = np.full((m, n), np.nan, np.float32)
    p = c_abi.Gemm(
        struct_size=ctypes.sizeof(c_abi.Gemm), device=c_abi.CPU, m=m, n=n, k=k, a_codes=places[0], a_stride=k // 2,
        a_scales=places[2], a_scales_bytes=scales[0].nbytes, b_codes=places[1], b_stride=k // 2, b_scales=places[3],
        b_scales_bytes=scales[1].nbytes, d=d.ctypes.data, d_stride=n, d_dtype=c_abi.FP32,
    )  # fmt: skip
    assert library.fp4aot_gemm_nvfp4(p) == c_abi.OK, c_abi.error(library)
    return d


def executor_is_used() -> None:
    library = c_abi.load()
    expected = product(library)  # own threads
    pool = Pool(3)
    assert library.fp4aot_set_cpu_executor(pool.struct) == c_abi.OK
    assert np.array_equal(product(library), expected)
    assert pool.runs == [3]
    pool.count = 0  # counts as one: nothing to share out
    assert np.array_equal(product(library), expected)
    assert pool.runs == [3]
    assert library.fp4aot_set_cpu_executor(None) == c_abi.OK
    pool.count, asked = 3, pool.asked
    assert np.array_equal(product(library), expected)
    assert (pool.runs, pool.asked) == ([3], asked)


def executor_before_the_image() -> None:
    library = c_abi.load()
    pool = Pool(2)
    assert library.fp4aot_set_cpu_executor(pool.struct) == c_abi.OK
    product(library)
    assert pool.runs == [2]


def executor_that_runs_too_little() -> None:
    """What it leaves is done by the caller: a result is never silently missing."""
    library = c_abi.load()
    expected = product(library)
    for ran in ([], [1]):

        def run(user: int, count: int, task, context: int, ran=ran) -> None:
            for i in ran:
                task(context, i)

        struct = c_abi.Executor(
            ctypes.sizeof(c_abi.Executor), c_abi.RUN_TASKS(run), c_abi.COUNT_THREADS(lambda user: 3), None
        )
        assert library.fp4aot_set_cpu_executor(struct) == c_abi.OK
        assert np.array_equal(product(library), expected)


def own_number_of_threads() -> None:
    library = c_abi.load()
    pool = Pool(3)
    assert library.fp4aot_set_cpu_executor(pool.struct) == c_abi.OK
    product(library)
    assert not pool.runs


def forked_child() -> None:
    library = c_abi.load()
    pool = Pool(3)
    assert library.fp4aot_set_cpu_executor(pool.struct) == c_abi.OK
    for used in (False, True):  # the image not loaded yet, and loaded
        child = os.fork()
        if child == 0:
            product(library)
            os._exit(len(pool.runs) - used)
        assert os.waitpid(child, 0)[1] == 0, used
        if not used:
            product(library)
    assert pool.runs == [3]


@pytest.mark.parametrize(
    "function", ["executor_is_used", "executor_before_the_image", "executor_that_runs_too_little", "forked_child"]
)
def test_executor(function):
    assert "done" in in_new_process(function)


def test_own_number_of_threads_overrides_an_executor():
    assert "done" in in_new_process("own_number_of_threads", FP4AOT_NUM_THREADS="2")


def torch_threads() -> None:
    """torch.set_num_threads holds for our ops: with one thread, the process gets no more threads than it had."""
    import fp4aot
    import torch

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    torch.set_num_threads(1)
    codes, scales = fp4aot.quantize_nvfp4(torch.randn(512, 512))
    before = threads()
    one = fp4aot.gemm_nvfp4(codes, codes, scales, scales, out_dtype=torch.float32)
    assert threads() == before
    torch.set_num_threads(3)
    torch.randn(1 << 22).exp()  # torch's own threads start
    before = threads()
    three = fp4aot.gemm_nvfp4(codes, codes, scales, scales, out_dtype=torch.float32)
    assert threads() == before
    assert torch.equal(one, three)


def test_torch_ops_run_on_the_threads_of_torch():
    assert "done" in in_new_process("torch_threads", OMP_NUM_THREADS="3")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"struct_size": 8}, "struct_size = 8"),
        ({"struct_size": 1 << 60}, "struct_size = 1152921504606846976"),
        ({"run": c_abi.RUN_TASKS()}, "run is NULL"),
        ({"threads": c_abi.COUNT_THREADS()}, "threads is NULL"),
    ],
)
def test_bad_executor(change, expected):
    library = c_abi.load()
    struct = Pool(1).struct
    for name, value in change.items():
        setattr(struct, name, value)
    assert library.fp4aot_set_cpu_executor(struct) == c_abi.INVALID_ARGUMENT
    assert expected in c_abi.error(library)
