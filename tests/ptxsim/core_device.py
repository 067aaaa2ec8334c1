"""A simulated device without the stand-in CUDA runtime, for tests of the simulator itself."""

import ctypes
import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from . import build

PTX = Path(__file__).parent / "ptx"


@dataclass(frozen=True)
class Finding:
    check: str
    message: str
    kernel: str
    source: str
    line: int
    warp: int
    lane: int
    cta: list[int]


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(build.simulator()))
    for name in ("create", "allocate"):
        getattr(lib, f"ptxsim_core_{name}").restype = ctypes.c_void_p
    for name in ("error", "findings", "counts"):
        getattr(lib, f"ptxsim_core_{name}").restype = ctypes.c_char_p
    return lib


class Device:
    def __init__(self, multiprocessors: int = 4, shared_bytes: int = 227 * 1024, max_cluster: int = 8):
        self.lib = library()
        self.core = ctypes.c_void_p(self.lib.ptxsim_core_create(multiprocessors, shared_bytes, max_cluster))
        self.sizes: dict[int, int] = {}

    def __del__(self):
        self.lib.ptxsim_core_destroy(self.core)

    def load(self, path: Path) -> None:
        assert self.lib.ptxsim_core_load(self.core, str(path).encode()), self.error()

    def error(self) -> str:
        return self.lib.ptxsim_core_error(self.core).decode()

    def allocate(self, count: int) -> int:
        """Bytes that were never written."""
        address = self.lib.ptxsim_core_allocate(self.core, ctypes.c_size_t(count))
        self.sizes[address] = count
        return address

    def upload(self, values: np.ndarray) -> int:
        values = np.ascontiguousarray(values)
        address = self.allocate(values.nbytes)
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
        self.lib.ptxsim_core_wrote(self.core, ctypes.c_void_p(address), ctypes.c_size_t(values.nbytes))
        return address

    def download(self, address: int, dtype, count: int) -> np.ndarray:
        size = np.dtype(dtype).itemsize * count
        return np.frombuffer(ctypes.string_at(address, size), dtype).copy()

    def written(self, address: int, count: int) -> bool:
        return bool(self.lib.ptxsim_core_may_read(self.core, ctypes.c_void_p(address), ctypes.c_size_t(count)))

    def schedule(self, seed: int, completion: str = "lazy", threads: int = 1) -> None:
        assert self.lib.ptxsim_core_schedule(self.core, ctypes.c_uint64(seed), completion.encode(), threads), (
            self.error()
        )

    def launch(
        self, kernel: str, *arguments: int | float, grid=1, block=32, cluster=1, shared=0, stream=0, pdl=False
    ) -> bool:
        """Arguments: 64-bit each, integers (addresses) or doubles. False: error() says why it was refused."""
        shapes = [(*v, 1, 1)[:3] if isinstance(v, tuple) else (v, 1, 1) for v in (grid, block, cluster)]
        dims = (ctypes.c_uint32 * 9)(*(part for shape in shapes for part in shape))
        data = b"".join(struct.pack("<d" if isinstance(a, float) else "<Q", a) for a in arguments)
        name, size = kernel.encode(), ctypes.c_size_t(len(data))
        launch = self.lib.ptxsim_core_launch
        return bool(launch(self.core, name, dims, shared, ctypes.c_uint64(stream), int(pdl), data, size))

    def synchronize(self) -> None:
        self.lib.ptxsim_core_synchronize(self.core)

    def findings(self) -> list[Finding]:
        return [Finding(**f) for f in json.loads(self.lib.ptxsim_core_findings(self.core))]

    def counts(self) -> list[dict]:
        return json.loads(self.lib.ptxsim_core_counts(self.core))

    def run(self, kernel: str, *arguments, **options) -> list[Finding]:
        """Launches, ends, and gives what was found."""
        assert self.launch(kernel, *arguments, **options), self.error()
        self.synchronize()
        return self.findings()
