"""Calls core's C ABI on device memory: of the simulator (in a process started with build.environment), or of a GPU.

The two differ in the library that has cudaMalloc and its like, and in that the simulator also tells what a kernel did
wrong. One session a process.
"""

from __future__ import annotations

import ctypes as c
import json
import os
from dataclasses import dataclass

import c_abi
import numpy as np

OPS = list(c_abi.OPS)
DTYPES = {"bf16": c_abi.BF16, "fp16": c_abi.FP16, "fp32": c_abi.FP32}
TO_DEVICE, TO_HOST = 1, 2


class SimulationError(AssertionError):
    """What the simulator found wrong; `findings` as it reports them."""

    def __init__(self, text: str, findings: list[dict]):
        super().__init__(text)
        self.findings = findings

    def __reduce__(self):
        return SimulationError, (self.args[0], self.findings)


class CallFailed(AssertionError):
    """A function of the C ABI, or of the CUDA runtime, returned an error."""


@dataclass
class Buffer:
    address: int
    bytes: int


def describe(finding: dict) -> str:
    cta = ",".join(map(str, finding["cta"]))
    place = f"{finding['ptx'].rpartition('/')[2]}:{finding['line']}" + (
        f" ({finding['source']})" if finding["source"] else ""
    )
    return (
        f"{finding['check']}: {finding['message']} | {finding['kernel']} cta ({cta}) warp {finding['warp']} lane "
        f"{finding['lane']} at {place}"
    )


def told(findings: list[dict]) -> list[dict]:
    """One of each check, and others up to five: how many a check has may depend on what ran first."""
    first = {finding["check"]: finding for finding in reversed(findings)}
    kinds = sorted(first.values(), key=findings.index)
    return [*kinds, *[finding for finding in findings if finding not in kinds][: max(0, 5 - len(kinds))]]


def bits_of(values: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values that dtype can hold, as its bits."""
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "fp32":
        return values
    if dtype == "fp16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def floats_of(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The inverse of bits_of."""
    if dtype == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.astype(np.float32)


ELEMENT = {"bf16": np.uint16, "fp16": np.float16, "fp32": np.float32}


class Session:
    def __init__(self, runtime: str = "libptxsim.so", core: str | None = None):
        """runtime: the library with the CUDA runtime; core: libfp4aot.so, by default FP4AOT_CORE.

        Without either of them there is device memory, and what the simulator says, but no C ABI to call.
        """
        self.runtime = c.CDLL(runtime, mode=c.RTLD_GLOBAL)
        for name in ("cudaMalloc", "cudaFree", "cudaMemcpy", "cudaMemset"):
            getattr(self.runtime, name).restype = c.c_int
        self.runtime.cudaGetErrorName.restype = c.c_char_p
        self.simulated = hasattr(self.runtime, "ptxsim_clear")
        if self.simulated:
            for name in ("findings_json", "counts_json", "complaints", "launched"):
                getattr(self.runtime, f"ptxsim_{name}").restype = c.c_char_p
            self.runtime.ptxsim_first_written.restype = c.c_longlong
            self.runtime.ptxsim_set_schedule.restype = c.c_bool
        self._buffers: list[Buffer] = []
        if path := core or os.environ.get("FP4AOT_CORE"):
            try:
                self.core, name = c_abi.load(path), c.c_char_p()
            except AttributeError as error:
                raise CallFailed(f"the build in FP4AOT_BUILD_DIR is older than these tests: {error}") from error
            self._call("image_name", c_abi.CUDA, c.byref(name))
            self.image = name.value.decode()

    # Device memory.

    def _cuda(self, name: str, *arguments) -> None:
        code = getattr(self.runtime, name)(*arguments)
        if code != 0:
            if self.simulated:
                self.synchronize()  # what the simulator knows about it says more
            raise CallFailed(f"{name}: {self.runtime.cudaGetErrorName(code).decode()} {self.complaints()}")

    def allocate(self, size: int) -> Buffer:
        """Bytes that were never written."""
        pointer = c.c_void_p()
        self._cuda("cudaMalloc", c.byref(pointer), c.c_size_t(max(size, 1)))
        self._buffers.append(Buffer(pointer.value, size))
        return self._buffers[-1]

    def upload(self, array: np.ndarray, stride_bytes: int | None = None, lead: int = 0) -> Buffer:
        """A copy of the array; a 2-D one's rows are stride_bytes apart, and what lies between them is never written.

        The buffer ends with the last row. lead: bytes before the first row, to move it off its natural alignment.
        """
        array = np.ascontiguousarray(array)
        row_bytes = array.shape[-1] * array.itemsize if array.ndim > 1 else array.nbytes
        rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)
        stride = stride_bytes or row_bytes
        whole = self.allocate(lead + (len(rows) - 1) * stride + row_bytes)
        start = Buffer(whole.address + lead, whole.bytes - lead)
        if stride == row_bytes:
            self._copy(start.address, array.ctypes.data, array.nbytes, TO_DEVICE)
        else:
            for i, row in enumerate(rows):
                self._copy(start.address + i * stride, row.ctypes.data, row_bytes, TO_DEVICE)
        return start

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        if size:
            self._cuda("cudaMemcpy", c.c_void_p(to), c.c_void_p(source), c.c_size_t(size), c.c_int(kind))

    def download(self, address: int, shape: tuple[int, ...], dtype, stride_bytes: int | None = None) -> np.ndarray:
        """Every byte must have been written."""
        array = np.empty(shape, dtype)
        row_bytes = shape[-1] * array.itemsize
        if len(shape) == 1 or not stride_bytes or stride_bytes == row_bytes:
            self._copy(array.ctypes.data, address, array.nbytes, TO_HOST)
        else:
            for i, row in enumerate(array):
                self._copy(row.ctypes.data, address + i * stride_bytes, row_bytes, TO_HOST)
        self.check()
        return array

    def expect_untouched(self, address: int, size: int, what: str) -> None:
        """No kernel wrote there (the simulator alone can tell)."""
        if self.simulated and size > 0:
            first = self.runtime.ptxsim_first_written(c.c_void_p(address), c.c_size_t(size))
            assert first < 0, f"{what}: byte {first} of the {size} was written"

    def release(self) -> None:
        """Frees every buffer that was allocated here."""
        for buffer in self._buffers:
            self._cuda("cudaFree", c.c_void_p(buffer.address))
        self._buffers.clear()

    # The C ABI.

    def _call(self, name: str, *arguments) -> None:
        if getattr(self.core, f"fp4aot_{name}")(*arguments) != c_abi.OK:
            raise CallFailed(f"{name}: {c_abi.error(self.core)} {self.complaints()}".strip())

    def params(self, op: str, *, pdl: bool = False, **fields) -> c.Structure:
        struct = c_abi.OPS[op]
        values = {name: value.address if isinstance(value, Buffer) else value for name, value in fields.items()}
        return struct(struct_size=c.sizeof(struct), device=c_abi.CUDA, flags=int(pdl), **values)

    def call(self, op: str, **fields) -> None:
        """Queues the op, with the workspace that it asks for; fields of its struct, buffers for pointers."""
        params = self.params(op, **fields)
        size = c.c_size_t()
        self._call(f"{op}_workspace_size", params, c.byref(size))
        if size.value:
            params.workspace, params.workspace_bytes = self.allocate(size.value).address, size.value
        self._call(op, params)

    def tactics(self, op: str, **fields) -> dict[int, str]:
        """Tactics that are valid for these fields: number -> name."""
        params, count = self.params(op, **fields), c.c_size_t(0)
        self._call("list_tactics", OPS.index(op), c.byref(params), None, c.byref(count))
        numbers = (c.c_int32 * count.value)()
        self._call("list_tactics", OPS.index(op), c.byref(params), numbers, c.byref(count))
        names = {}
        for number in numbers:
            name = c.c_char_p()
            self._call("tactic_name", OPS.index(op), c_abi.CUDA, c.c_int32(number), c.byref(name))
            names[number] = name.value.decode()
        return names

    @staticmethod
    def ops() -> list[str]:
        return OPS

    def supports(self, op: str) -> bool:
        return bool(self.core.fp4aot_supports(OPS.index(op), c_abi.CUDA))

    # What the simulator says.

    def synchronize(self) -> None:
        """Ends all queued work and raises what was found wrong with it."""
        code = self.runtime.cudaDeviceSynchronize()
        self.check()
        if code != 0:
            raise CallFailed(f"cudaDeviceSynchronize: {self.runtime.cudaGetErrorName(code).decode()}")

    def check(self) -> None:
        if not self.simulated:
            return
        findings, complaints = self.findings(), self.complaints()
        if findings or complaints:
            lines = [describe(finding) for finding in told(findings)]
            lines += [f"... {len(findings)} findings"] if len(findings) > len(lines) else []
            raise SimulationError("\n".join([*lines, complaints]).strip(), findings)

    def findings(self) -> list[dict]:
        return json.loads(self.runtime.ptxsim_findings_json()) if self.simulated else []

    def counts(self) -> list[dict]:
        return json.loads(self.runtime.ptxsim_counts_json()) if self.simulated else []

    def complaints(self) -> str:
        return self.runtime.ptxsim_complaints().decode() if self.simulated else ""

    def launched(self) -> list[str]:
        return self.runtime.ptxsim_launched().decode().split() if self.simulated else []

    def clear(self) -> None:
        if self.simulated:
            self.runtime.ptxsim_clear()

    def set_schedule(self, completion: str, seed: int = 0) -> None:
        """When asynchronous copies and products complete: "lazy", "eager" (then arrivals at a cluster's barrier wait as
        well, as under compute-sanitizer) or "random".
        """
        threads = int(os.environ.get("PTXSIM_THREADS", "0"))
        known = self.runtime.ptxsim_set_schedule(c.c_ulonglong(seed), completion.encode(), c.c_int(threads))
        assert known, f"no completion {completion}"
