"""Environment variables with values that mean nothing are said, not silently ignored."""

import installed
import pytest

PROGRAM = """
import numpy as np, fp4aot
codes, scales = fp4aot.quantize_nvfp4(np.ones((64, 4096), np.float32))
fp4aot.gemm_nvfp4(codes, codes, scales, scales)
print(codes[0, 0])
"""


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("FP4AOT_CPU_ISA", "sse9", "portable, avx2 or avx512"),
        ("FP4AOT_CPU_ISA", "AVX2", "portable, avx2 or avx512"),
        ("FP4AOT_NUM_THREADS", "many", "1 to 1024"),
        ("FP4AOT_NUM_THREADS", "0", "1 to 1024"),
    ],
)
def test_value_that_means_nothing(name, value, allowed):
    done = installed.python(PROGRAM, env={name: value})
    assert done.stdout.strip() == str(0x77), "1 = amax is 6 of its block: code 7, twice"
    assert f"{name}='{value}'" in done.stderr
    assert allowed in done.stderr
    assert done.stderr.count(name) == 1


def test_good_values_say_nothing():
    done = installed.python(PROGRAM, env={"FP4AOT_CPU_ISA": "portable", "FP4AOT_NUM_THREADS": "2"})
    assert done.stderr == ""
