"""Fields that have no meaning yet."""

import ctypes

import c_abi
import pytest

LIBRARY = c_abi.load()

# A size that each of these ops takes.
RESERVED = {
    "dequantize_nvfp4": {"output_dtype": 1, "rows": 1, "k": 32, "codes_stride": 16, "output_stride": 32},
    "swizzle_scales": {"rows": 1, "columns": 4, "linear_stride": 4},
    "gemm_w4a16_mxfp4": {"m": 1, "n": 8, "k": 32, "a_stride": 32, "a_dtype": 1, "d_dtype": 1, "d_stride": 8},
}


@pytest.mark.parametrize("op", RESERVED)
def test_reserved_fields_are_zero(op):
    """So that a later version may give them a meaning."""
    assert {c_abi.OPS[name] for name in RESERVED} == {s for s in c_abi.OPS.values() if hasattr(s, "reserved")}
    struct = c_abi.OPS[op]
    params = struct(struct_size=ctypes.sizeof(struct), device=c_abi.CPU, **RESERVED[op])
    size = ctypes.c_size_t()
    assert getattr(LIBRARY, f"fp4aot_{op}_workspace_size")(params, size) == c_abi.OK
    params.reserved = 1
    assert getattr(LIBRARY, f"fp4aot_{op}_workspace_size")(params, size) == c_abi.INVALID_ARGUMENT
    assert "reserved = 1 is not allowed; use 0" in c_abi.error(LIBRARY)
