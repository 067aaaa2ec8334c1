"""Inputs for the tests: rows with every kind of value, strides, guarded outputs, poisoned padding."""

import numpy as np
import reference
import torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
SCALE_DTYPES = {"nvfp4": torch.float8_e4m3fn, "mxfp4": torch.float8_e8m0fnu}
NAN_SCALE = {"nvfp4": 0x7F, "mxfp4": 0xFF}
POISON = 0xA5


def bytes_of(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory as uint8, in the tensor's shape for one-byte types."""
    return tensor.detach().contiguous().cpu().view(torch.uint8).numpy()


def floats_of(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().float().numpy()


def tensor_of(values: np.ndarray, dtype: str, device: str) -> torch.Tensor:
    """A tensor that holds float32 values rounded to dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(DTYPES[dtype]).to(device)


def random_rows(rng: np.random.Generator, rows: int, k: int, kind: str) -> np.ndarray:
    """float32 [rows, k]. Kinds: "normal"; "wide" (any exponent); "special" (normal with NaN, infinities, signed zeros,
    zero blocks and subnormals strewn in)."""
    values = rng.standard_normal((rows, k)).astype(np.float32)
    if kind == "wide":
        exponents = rng.integers(-140, 120, (rows, (k + 15) // 16)).repeat(16, axis=1)[:, :k]
        values = np.ldexp(values, exponents).astype(np.float32)
    elif kind == "special":
        where = rng.random((rows, k))
        for low, value in ((0.99, np.nan), (0.98, np.inf), (0.97, -np.inf), (0.9, -0.0), (0.85, 0.0), (0.84, 1e-40)):
            values[(where > low) & (where < low + 0.01)] = value
        zero = rng.random((rows, (k + 15) // 16)) < 0.1
        values[zero.repeat(16, axis=1)[:, :k]] = 0.0
    else:
        assert kind == "normal"
    return values


def with_row_stride(tensor: torch.Tensor, gap: int) -> torch.Tensor:
    """The same 2-D tensor as a view whose rows lie `gap` elements further apart; the gap holds poison."""
    if gap == 0:
        return tensor
    rows, columns = tensor.shape
    size = tensor.element_size()
    storage = torch.full((rows, (columns + gap) * size), POISON, dtype=torch.uint8, device=tensor.device)
    view = storage.view(tensor.dtype)[:, :columns]
    view.copy_(tensor)
    return view


class Guarded:
    """An output tensor inside a larger poisoned buffer, to see that nothing beside it is written."""

    def __init__(
        self, rows: int, columns: int, dtype: torch.dtype, device: str, guard_rows: int = 3, guard_columns: int = 32
    ):
        self._before, self._after = guard_rows, guard_rows
        self._columns, self._guard = columns, guard_columns
        self._size = torch.empty((), dtype=dtype).element_size()
        shape = (rows + 2 * guard_rows, (columns + 2 * guard_columns) * self._size)
        self._storage = torch.full(shape, POISON, dtype=torch.uint8, device=device)
        self.rows = rows
        self.tensor = self._storage.view(dtype)[guard_rows : guard_rows + rows, guard_columns : guard_columns + columns]

    def check(self) -> None:
        """Every byte around the tensor is as it was."""
        memory = self._storage.cpu().numpy()
        outside = np.ones(memory.shape, bool)
        first = self._guard * self._size
        outside[self._before : self._before + self.rows, first : first + self._columns * self._size] = False
        touched = outside & (memory != POISON)
        assert not touched.any(), f"{touched.sum()} bytes written outside, first at {np.argwhere(touched)[0].tolist()}"

    def unwritten(self) -> np.ndarray:
        """Which rows of the tensor still hold poison in every byte."""
        return (bytes_of(self.tensor).reshape(self.rows, -1) == POISON).all(axis=1)


def guarded_bytes(size: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A poisoned contiguous buffer of `size` bytes with 512 guard bytes behind it: (whole as uint8, the buffer)."""
    whole = torch.full((size + 512,), POISON, dtype=torch.uint8, device=device)
    return whole, whole[:size].view(dtype)


class Operand:
    """Random FP4 codes and scales of [rows, k], as tensors for the library and as fp64 values for the reference."""

    def __init__(
        self, rng, rows: int, k: int, format: str, device: str, *, low: int | None = None, high: int | None = None
    ):
        """low..high: range of the scale bytes; by default around 1."""
        vector = reference.VECTOR[format]
        default = (0x28, 0x48) if format == "nvfp4" else (122, 129)
        low, high = default[0] if low is None else low, default[1] if high is None else high
        self.format, self.device, self.rows, self.k = format, device, rows, k
        self.codes = rng.integers(0, 16, (rows, k)).astype(np.uint8)
        self.scales = rng.integers(low, high + 1, (rows, k // vector)).astype(np.uint8)

    @property
    def packed(self) -> torch.Tensor:
        return torch.from_numpy(reference.pack_codes(self.codes)).to(self.device)

    def swizzled(self, row_padding: int = 0, k_padding: int = 0) -> torch.Tensor:
        """The swizzled scales, with these bytes in the padding rows and in the padding columns of real rows."""
        columns = self.scales.shape[1]
        rows, padded = reference.swizzled_shape(self.rows, columns)
        linear = np.full((rows, padded), row_padding, np.uint8)
        linear[: self.rows] = k_padding
        linear[: self.rows, :columns] = self.scales
        swizzled = torch.from_numpy(reference.swizzle(linear)).to(self.device)
        return swizzled.view(SCALE_DTYPES[self.format])

    @property
    def values(self) -> np.ndarray:
        return reference.dequantize(self.codes, self.scales, self.format)
