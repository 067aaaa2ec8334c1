"""NumPy arrays: every op without torch, and the same bytes as tensors."""

import fp4aot
import installed
import numpy as np
import torch
from operands import bytes_of, random_rows

NO_TORCH = """
import sys
sys.modules["torch"] = None  # import torch raises ModuleNotFoundError
import json
import numpy as np
import fp4aot, reference
x = np.random.default_rng(0).standard_normal((2, 20, 96)).astype(np.float32)
scale = fp4aot.nvfp4_global_scale(x)
assert scale.dtype == np.float32 and scale.shape == () and scale == reference.nvfp4_global_scale(x)
codes, scales = fp4aot.quantize_nvfp4(x, scale)
want_codes, want_scales = reference.quantize(x.reshape(40, 96), "nvfp4", scale)
assert codes.dtype == scales.dtype == np.uint8 and codes.shape == (2, 20, 48)
assert np.array_equal(codes.reshape(40, 48), reference.pack_codes(want_codes))
assert np.array_equal(scales, reference.swizzle(want_scales))
assert np.array_equal(fp4aot.unswizzle_scales(scales, 40, 6), want_scales)
assert np.array_equal(fp4aot.swizzle_scales(want_scales), scales)
back = fp4aot.dequantize_nvfp4(codes, scales, scale)
assert back.dtype == np.float32 and back.shape == x.shape
assert np.allclose(back, x, atol=0.9)
codes, scales = fp4aot.quantize_mxfp4(x.astype(np.float16), rounding="floor", scale_layout="linear")
want = reference.quantize(x.astype(np.float16).reshape(40, 96).astype(np.float32), "mxfp4", rounding="floor")
assert np.array_equal(codes.reshape(40, 48), reference.pack_codes(want[0]))
assert np.array_equal(scales.reshape(40, 3), want[1])
codes, scales = fp4aot.silu_mul_quantize_nvfp4(x)
assert codes.shape == (2, 20, 24)
residual = np.ones_like(x)
fp4aot.rmsnorm_quantize_nvfp4(x, np.ones(96, np.float32), residual=residual)
assert np.array_equal(residual, x + 1)
out = np.zeros((40, 56), np.uint8)[:, :48]
fp4aot.quantize_nvfp4(x.reshape(40, 96), out=(out, np.zeros((128, 8), np.uint8)))
empty, _ = fp4aot.quantize_nvfp4(np.zeros((0, 32), np.float32))
assert empty.shape == (0, 16)
for bad, text in ((x[..., ::2], "contiguous"), (x.astype(np.float64), "float64"), (x[..., :40], "multiple of 16"),
                  (x.astype(">f4"), "native")):
    try:
        fp4aot.quantize_nvfp4(bad)
    except (ValueError, TypeError) as error:
        assert text in str(error), error
    else:
        raise AssertionError("accepted " + text)
x.flags.writeable = False
fp4aot.quantize_nvfp4(x)
codes.flags.writeable = False
try:
    fp4aot.quantize_nvfp4(x, out=(codes, scales))
except ValueError as error:
    assert "read-only" in str(error)
else:
    raise AssertionError("wrote to a read-only array")
try:
    import fp4aot.nn
except ImportError as error:
    assert "torch" in str(error)
else:
    raise AssertionError("fp4aot.nn without torch")
assert fp4aot.image_name("cpu") == "cpu" and fp4aot.supports("gemm_nvfp4", "cpu")
json.dumps(fp4aot.info())
assert sys.modules["torch"] is None
print("done")
"""


def test_numpy_without_torch():
    assert "done" in installed.python(NO_TORCH).stdout


def test_numpy_bfloat16_and_torch_agree():
    import ml_dtypes

    values = random_rows(np.random.default_rng(0), 65, 96, "special")
    with np.errstate(invalid="ignore"):
        array = values.astype(ml_dtypes.bfloat16)
    codes, scales = fp4aot.quantize_nvfp4(array, np.float32(3))
    tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    tensor_codes, tensor_scales = fp4aot.quantize_nvfp4(tensor, torch.tensor(3.0))
    assert np.array_equal(codes, bytes_of(tensor_codes))
    assert np.array_equal(scales.view(np.uint8), bytes_of(tensor_scales))
