"""prepare_w4a16_weights and PreparedWeight: the bytes, restore, buffers of other sizes and strides, saving."""

import io
import pickle

import fp4aot
import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from operands import SCALE_DTYPES, Operand, bytes_of, with_row_stride
from w4a16_operands import FORMATS, activations, assert_correct, gemm, prepare


def weights(format: str, n: int, k: int, device: str, seed: int = 0) -> Operand:
    """Every scale byte the format has."""
    return Operand(np.random.default_rng(seed), n, k, format, device, low=0, high=0x7F if format == "nvfp4" else 0xFF)


def linear_scales(b: Operand) -> torch.Tensor:
    return torch.from_numpy(b.scales).to(b.device).view(SCALE_DTYPES[b.format])


def assert_bytes(weight, b: Operand) -> None:
    assert np.array_equal(bytes_of(weight.data), reference.prepare_w4a16(b.codes, b.scales, b.format))


@given(
    n=st.integers(1, 20).map(lambda eighths: 8 * eighths),
    blocks=st.integers(1, 30),
    codes_gap=st.sampled_from([0, 8, 40]),
    scales_gap=st.sampled_from([0, 1, 7]),
    layout=st.sampled_from(["swizzled", "linear"]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("format", FORMATS)
def test_bytes_and_restore(device, format, n, blocks, codes_gap, scales_gap, layout, seed):
    k = blocks * reference.VECTOR[format]
    b = weights(format, n, k, device, seed)
    scales = with_row_stride(linear_scales(b), scales_gap) if layout == "linear" else b.swizzled()
    packed = with_row_stride(b.packed, codes_gap)
    weight = fp4aot.prepare_w4a16_weights(packed, scales, format=format, scale_layout=layout)
    assert (weight.format, weight.n, weight.k, weight.shape) == (format, n, k, (n, k))
    assert weight.nbytes == weight.data.numel() == -(-n // 16) * -(-k // 64) * (576 if format == "nvfp4" else 544)
    assert_bytes(weight, b)
    for other in ("swizzled", "linear"):
        codes, restored = weight.restore(scale_layout=other)
        assert torch.equal(codes, b.packed)
        assert restored.dtype == SCALE_DTYPES[format]
        assert np.array_equal(bytes_of(restored), b.scales if other == "linear" else reference.swizzle(b.scales))


@pytest.mark.parametrize("format", FORMATS)
def test_prepared_bytes_are_the_canonical_ones(format):
    """Nothing is added but padding: none for N a multiple of 16 and K of 64."""
    b = weights(format, 4096, 7168, "cpu")
    weight = prepare(b)
    assert weight.nbytes == b.packed.numel() + b.scales.size


@pytest.mark.parametrize("format", FORMATS)
def test_padding_and_larger_buffers_of_scales(device, format):
    """Poison beyond the scales of N and K, in the swizzled padding or behind the buffer, changes nothing."""
    k = 5 * 32
    b = weights(format, 40, k, device)
    vector = reference.VECTOR[format]
    assert k // vector % 4 != 0
    flat = torch.cat([linear_scales(b).view(torch.uint8).reshape(-1), torch.full((99,), 0xFE, device=device).byte()])
    rows = torch.full((70, k // vector), 0xFE, dtype=torch.uint8, device=device)
    rows[:40] = linear_scales(b).view(torch.uint8)
    whole = b.swizzled(0xFE, 0xFE).view(torch.uint8).reshape(-1)
    longer = torch.cat([whole, torch.full((512,), 0xFE, dtype=torch.uint8, device=device)])
    for scales, layout in ((flat, "linear"), (rows, "linear"), (whole, "swizzled"), (longer, "swizzled")):
        weight = fp4aot.prepare_w4a16_weights(b.packed, scales, format=format, scale_layout=layout)
        assert_bytes(weight, b)
        assert np.array_equal(bytes_of(weight.restore()[1]), reference.swizzle(b.scales))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", ["swizzled", "linear"])
def test_weights_that_begin_anywhere(device, format, layout):
    """As tensors of a mapped file do."""
    b = weights(format, 40, 160, device)

    def moved(tensor):
        flat = torch.cat([torch.zeros(3, dtype=torch.uint8, device=device), tensor.view(torch.uint8).reshape(-1)])
        return flat[3:].view(tensor.shape)

    codes, scales = moved(b.packed), moved(b.swizzled() if layout == "swizzled" else linear_scales(b))
    assert codes.data_ptr() % 8
    assert scales.data_ptr() % 8
    for c in (codes, codes.view(torch.float4_e2m1fn_x2)):
        weight = fp4aot.prepare_w4a16_weights(c, scales.view(SCALE_DTYPES[format]), format=format, scale_layout=layout)
        assert_bytes(weight, b)
    if device == "cpu":
        arrays = codes.numpy(), scales.numpy()
        assert arrays[0].ctypes.data % 8
        from_arrays = fp4aot.prepare_w4a16_weights(*arrays, format=format, scale_layout=layout)
        assert np.array_equal(from_arrays.data, bytes_of(weight.data))


@pytest.mark.parametrize("format", FORMATS)
def test_float4_and_uint8_views(device, format):
    b = weights(format, 16, 64, device)
    weight = fp4aot.prepare_w4a16_weights(
        b.packed.view(torch.float4_e2m1fn_x2), b.swizzled().view(torch.uint8), format=format
    )
    assert_bytes(weight, b)


@pytest.mark.parametrize("layout", ["swizzled", "linear"])
def test_negative_scales_are_refused(device, layout):
    """With how many there are and where the first is; -0 is one too. Bytes in the padding do not count."""
    b = Operand(np.random.default_rng(0), 40, 96, "nvfp4", device)
    b.scales[3, 2], b.scales[7, 1], b.scales[39, 5] = 0x81, 0x80, 0xFF
    scales = linear_scales(b) if layout == "linear" else b.swizzled(0xFF, 0xFF)
    with pytest.raises(ValueError, match=r"3 e4m3 byte.*bit 7 set.*first 0x81 at row 3, block 2 \(K 32..47\)"):
        fp4aot.prepare_w4a16_weights(b.packed, scales, scale_layout=layout)
    arrays = b.packed.cpu().numpy(), scales.view(torch.uint8).cpu().numpy()
    with pytest.raises(ValueError, match=r"3 e4m3 byte.*first 0x81 at row 3, block 2 \(K 32..47\)"):
        fp4aot.prepare_w4a16_weights(*arrays, scale_layout=layout)


@pytest.mark.parametrize("format", FORMATS)
def test_saved_and_moved(device, format):
    """Weights prepared on the CPU, saved, loaded and moved work on the device, and the other way round."""
    rng = np.random.default_rng(1)
    b = Operand(rng, 40, 96, format, "cpu")
    here = prepare(b)
    there = here.to(device)
    assert there.data.device.type == device
    assert (there.n, there.k, there.format) == (40, 96, format)
    a = activations(rng, 7, 96, "bf16", device)
    assert_correct(gemm(format, a, there), a, b)
    on_device = Operand(np.random.default_rng(1), 40, 96, format, device)
    assert torch.equal(prepare(on_device).data.cpu(), here.data)

    state = there.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = fp4aot.PreparedWeight.from_state_dict(torch.load(file, weights_only=True))
    assert (loaded.n, loaded.k, loaded.format) == (40, 96, format)
    assert torch.equal(loaded.data.cpu(), here.data)
    again = pickle.loads(pickle.dumps(here))
    assert torch.equal(again.data, here.data)


@pytest.mark.parametrize("format", FORMATS)
def test_safetensors(tmp_path, format):
    """A mapped file's tensors begin at multiples of 8 bytes: loading copies those that need 16."""
    safetensors = pytest.importorskip("safetensors.torch")
    b = Operand(np.random.default_rng(2), 24, 96, format, "cpu")
    tensors = {f"layer.{name}": value for name, value in prepare(b).state_dict().items()}
    tensors["a"] = torch.zeros(8, dtype=torch.uint8)
    safetensors.save_file(tensors, tmp_path / "weights.safetensors")
    loaded = safetensors.load_file(tmp_path / "weights.safetensors")
    state = {name.removeprefix("layer."): value for name, value in loaded.items() if name.startswith("layer.")}
    a = activations(np.random.default_rng(0), 3, 96, "fp16", "cpu")
    assert_correct(gemm(format, a, fp4aot.PreparedWeight.from_state_dict(state)), a, b)


def test_state_at_any_address():
    data = torch.zeros(576 + 8, dtype=torch.uint8)[8:]
    assert data.data_ptr() % 16 == 8
    weight = fp4aot.PreparedWeight.from_state_dict({"data": data, "shape": torch.tensor([8, 32])})
    assert weight.format == "nvfp4"
    assert not gemm("nvfp4", torch.ones(1, 32, dtype=torch.bfloat16), weight).any()


def test_state_with_strides():
    """What loading gives is contiguous, whatever the state's data was."""
    b = weights("nvfp4", 16, 64, "cpu")
    data = torch.stack([prepare(b).data] * 2, 1)[:, 0]
    assert not data.is_contiguous()
    for strided in (data, data.numpy()):
        loaded = fp4aot.PreparedWeight.from_state_dict({"data": strided, "shape": np.array([16, 64])})
        assert np.array_equal(np.asarray(loaded.data), bytes_of(prepare(b).data))
        assert np.array_equal(np.asarray(loaded.restore()[0]), bytes_of(b.packed))


@pytest.mark.parametrize("format", FORMATS)
def test_numpy(format):
    """Arrays give the same bytes and products as tensors."""
    import ml_dtypes

    rng = np.random.default_rng(3)
    b = Operand(rng, 40, 96, format, "cpu")
    codes, swizzled = b.packed.numpy(), b.swizzled().view(torch.uint8).numpy()
    for scales, layout in ((swizzled, "swizzled"), (b.scales, "linear"), (b.scales.reshape(-1), "linear")):
        weight = fp4aot.prepare_w4a16_weights(codes, scales, format=format, scale_layout=layout)
        assert np.array_equal(weight.data, bytes_of(prepare(b).data))
    assert weight.nbytes == weight.data.nbytes
    restored = weight.restore(scale_layout="linear")
    assert np.array_equal(restored[0], codes)
    assert np.array_equal(restored[1], b.scales)
    loaded = fp4aot.PreparedWeight.from_state_dict(weight.state_dict())
    assert (loaded.n, loaded.k, loaded.format) == (40, 96, format)
    a = rng.standard_normal((2, 5, 96)).astype(np.float32)
    bias = np.linspace(-1, 1, 40).astype(np.float32)
    for dtype, torch_dtype in ((np.float16, torch.float16), (ml_dtypes.bfloat16, torch.bfloat16)):
        out = gemm(format, a.astype(dtype), loaded, 0.5, bias)
        assert out.shape == (2, 5, 40)
        assert out.dtype == dtype
        wanted = gemm(
            format, torch.from_numpy(a).to(torch_dtype), prepare(b), torch.tensor([0.5]), torch.from_numpy(bias)
        )
        assert np.array_equal(out.astype(np.float32), wanted.float().numpy())
    into = np.zeros((10, 48), np.float32)[:, :40]
    assert gemm(format, a.reshape(10, 96).astype(np.float16), loaded, out=into) is into
