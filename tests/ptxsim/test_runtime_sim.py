"""The stand-in CUDA runtime and driver themselves, with a kernel written by hand: no image, no nvcc."""

import os
import subprocess
import sys
import textwrap

import installed
import pytest

from . import build

pytestmark = [pytest.mark.ptxsim, pytest.mark.build]

PTX = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 data, .param .u8 pad, .param .f32 factor, .param .u32 count)
.maxntid 256, 1, 1
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<4>;
  .shared .align 4 .b8 scratch[1024];
  ld.param.u64 %rd1, [data];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  mul.rn.f32 %f3, %f2, %f1;
  st.global.f32 [%rd3], %f3;
DONE:
  ret;
}
"""
# A library as nvcc would make one: what it registers, and the kernel's host stub.
LIBRARY = 'extern "C" { int image; void scale_stub() {} }\n'

PRELUDE = """
import ctypes as c, os, struct, sys
import numpy as np
cuda = c.CDLL(os.environ["FOLDER"] + "/libptxsim.so", mode=c.RTLD_GLOBAL)
module = c.CDLL(os.environ["FOLDER"] + "/module.so")
stub = c.cast(module.scale_stub, c.c_void_p)
cuda.__getattr__("__cudaRegisterFunction")(
    c.byref(c.c_int.in_dll(module, "image")), stub, b"scale", b"scale", -1, *[None] * 5)
for name in ("cudaGetErrorName", "ptxsim_complaints", "ptxsim_findings_json"):
    getattr(cuda, name).restype = c.c_char_p

class Dim3(c.Structure):
    _fields_ = [("x", c.c_uint), ("y", c.c_uint), ("z", c.c_uint)]
class Attribute(c.Structure):
    _fields_ = [("id", c.c_int), ("pad", c.c_int), ("value", c.c_uint * 16)]
class Config(c.Structure):
    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", c.c_size_t), ("stream", c.c_void_p),
                ("attributes", c.POINTER(Attribute)), ("count", c.c_uint)]

def name(code): return cuda.cudaGetErrorName(code).decode()
def ok(code): assert code == 0, (name(code), cuda.ptxsim_complaints(), cuda.ptxsim_findings_json())
def allocate(size):
    pointer = c.c_void_p()
    ok(cuda.cudaMalloc(c.byref(pointer), c.c_size_t(size)))
    return pointer
def upload(array):
    pointer = allocate(array.nbytes)
    ok(cuda.cudaMemcpy(pointer, c.c_void_p(array.ctypes.data), c.c_size_t(array.nbytes), 1))
    return pointer
def download(pointer, count):
    array = np.empty(count, np.float32)
    ok(cuda.cudaMemcpy(c.c_void_p(array.ctypes.data), pointer, c.c_size_t(array.nbytes), 2))
    return array
def launch(pointer, factor, count, grid=(1, 1, 1), block=(64, 1, 1), shared=0, attributes=(), stream=None,
           function=stub):
    values = [c.c_void_p(pointer.value), c.c_ubyte(77), c.c_float(factor), c.c_uint(count)]
    arguments = (c.c_void_p * 4)(*[c.addressof(value) for value in values])
    array = (Attribute * max(1, len(attributes)))(*[Attribute(i, 0, (c.c_uint * 16)(*v)) for i, v in attributes])
    config = Config(Dim3(*grid), Dim3(*block), shared, stream, array, len(attributes))
    return cuda.cudaLaunchKernelExC(c.byref(config), function, arguments)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runtime")
    (place / "libptxsim.so").symlink_to(build.simulator())
    (place / "module.cpp").write_text(LIBRARY)
    installed.run(installed.compiler(), "-shared", "-fPIC", place / "module.cpp", "-o", place / "module.so")
    (place / "scale.ptx").write_text(PTX)
    (place / "module.so.ptx-list").write_text(f"{place / 'scale.ptx'}\n")
    return place


def run(folder, code: str, chip: str | None = "sm90a", **variables) -> subprocess.CompletedProcess:
    environment = dict(os.environ, FOLDER=str(folder), **variables)
    environment.pop("FP4AOT_SIM", None)
    if chip is not None:
        environment["FP4AOT_SIM"] = chip
    program = PRELUDE + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    return done


def passes(folder, code: str, **options) -> None:
    done = run(folder, textwrap.dedent(code) + "\nprint('passed')\n", **options)
    assert done.stdout.endswith("passed\n"), done.stdout + done.stderr


def test_a_kernel_with_all_its_parameters(folder):
    passes(folder, """
        data = upload(np.arange(100, dtype=np.float32))
        ok(launch(data, 2.5, 90, grid=(2, 1, 1)))
        ok(cuda.cudaDeviceSynchronize())
        wanted = np.arange(100) * np.where(np.arange(100) < 90, 2.5, 1)
        assert (download(data, 100) == wanted).all()
        ok(cuda.cudaFree(data))
        assert name(cuda.cudaFree(data)) == "cudaErrorInvalidValue"
    """)  # fmt: skip


REFUSED = {
    "no CTA": ("grid=(0, 1, 1)", "cudaErrorInvalidConfiguration"),
    "too many rows of CTAs": ("grid=(1, 65536, 1)", "cudaErrorInvalidConfiguration"),
    "too many threads": ("block=(1025, 1, 1)", "cudaErrorInvalidConfiguration"),
    "too deep a block": ("block=(1, 1, 65)", "cudaErrorInvalidConfiguration"),
    "beyond the launch bounds": ("block=(257, 1, 1)", "cudaErrorInvalidValue"),
    "shared memory that was not opted in": ("shared=49152 - 1023", "cudaErrorInvalidValue"),
    "a part of a cluster": ("grid=(3, 1, 1), attributes=[(4, (2, 1, 1))]", "cudaErrorInvalidClusterSize"),
    "a cluster that is not portable": ("grid=(16, 1, 1), attributes=[(4, (16, 1, 1))]", "cudaErrorInvalidClusterSize"),
    "an attribute that is not simulated": ("attributes=[(2, (1,))]", "cudaErrorNotSupported"),
    "a stream that does not exist": ("stream=1 << 40", "cudaErrorInvalidResourceHandle"),
    "a function that is no kernel": ("function=c.c_void_p(64)", "cudaErrorInvalidDeviceFunction"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_launches_that_are_refused(folder, what):
    arguments, error = REFUSED[what]
    passes(folder, f"""
        data = upload(np.ones(100, np.float32))
        assert name(launch(data, 2.0, 100, {arguments})) == "{error}"
        assert name(cuda.cudaPeekAtLastError()) == name(cuda.cudaGetLastError()) == "{error}"
        ok(cuda.cudaGetLastError())
        assert (download(data, 100) == 1).all()
    """)  # fmt: skip


def test_launches_that_are_allowed_once_asked_for(folder):
    passes(folder, """
        data = upload(np.ones(64, np.float32))
        assert name(cuda.cudaFuncSetAttribute(stub, 8, 232449 - 1024)) == "cudaErrorInvalidValue"
        ok(cuda.cudaFuncSetAttribute(stub, 8, 232448 - 1024))
        ok(launch(data, 2.0, 64, shared=232448 - 1024))
        ok(cuda.cudaFuncSetAttribute(stub, 14, 1))
        ok(launch(data, 2.0, 64, grid=(16, 1, 1), attributes=[(4, (16, 1, 1))]))
        ok(cuda.cudaDeviceSynchronize())
        ok(launch(data, 2.0, 64, attributes=[(6, (1,)), (8, (0,))]))
        assert (download(data, 64) == 8).all()
    """, PTXSIM_MULTIPROCESSORS="16")  # fmt: skip


def test_streams_events_and_graphs(folder):
    passes(folder, """
        stream, graph, executable = c.c_void_p(), c.c_void_p(), c.c_void_p()
        ok(cuda.cudaStreamCreateWithFlags(c.byref(stream), 1))
        data = upload(np.ones(64, np.float32))
        ok(cuda.cudaStreamBeginCapture(stream, 0))
        ok(launch(data, 3.0, 64, stream=stream))
        ok(launch(data, 2.0, 32, stream=stream))
        ok(cuda.cudaStreamEndCapture(stream, c.byref(graph)))
        assert (download(data, 64) == 1).all(), "a captured launch does not run"
        ok(cuda.cudaGraphInstantiate(c.byref(executable), graph, c.c_ulonglong(0)))
        for _ in range(2):
            ok(cuda.cudaGraphLaunch(executable, stream))
        ok(cuda.cudaStreamSynchronize(stream))
        assert download(data, 64).tolist() == [36.0] * 32 + [9.0] * 32
        events = c.c_void_p(), c.c_void_p()
        time = c.c_float(-1)
        for event in events:
            ok(cuda.cudaEventCreate(c.byref(event)))
            ok(cuda.cudaEventRecord(event, stream))
        ok(cuda.cudaEventElapsedTime(c.byref(time), *events))
        assert time.value >= 0
        ok(cuda.cudaMemsetAsync(data, 0, c.c_size_t(128), stream))
        assert download(data, 64).tolist() == [0.0] * 32 + [9.0] * 32
        ok(cuda.cudaStreamDestroy(stream))
        assert cuda.cudaStreamSynchronize(stream) != 0
    """)  # fmt: skip


def test_copies_are_checked(folder):
    passes(folder, """
        array = np.ones(64, np.float32)
        host, data = c.c_void_p(array.ctypes.data), upload(array)
        for target, source, kind in ((data, host, 2), (data, host, 3), (host, data, 1), (host, host, 1)):
            assert name(cuda.cudaMemcpy(target, source, c.c_size_t(4), kind)) == "cudaErrorInvalidValue"
        assert name(cuda.cudaMemcpy(data, host, c.c_size_t(260), 1)) == "cudaErrorInvalidValue"
        cuda.ptxsim_clear()
        fresh = allocate(64)
        ok(cuda.cudaMemcpy(host, fresh, c.c_size_t(64), 2))
        assert b"never written" in cuda.ptxsim_complaints()
        ok(cuda.cudaMemset(fresh, 1, c.c_size_t(64)))
        cuda.ptxsim_first_written.restype = c.c_longlong
        assert cuda.ptxsim_first_written(fresh, c.c_size_t(64)) == 0
        assert cuda.ptxsim_first_written(allocate(64), c.c_size_t(64)) == -1
    """)  # fmt: skip


def test_a_fault_of_a_kernel_is_an_error_of_the_next_synchronisation(folder):
    passes(folder, """
        data = upload(np.ones(50, np.float32))
        ok(launch(data, 2.0, 64))
        assert name(cuda.cudaDeviceSynchronize()) == "cudaErrorLaunchFailure"
        assert b"scale" in cuda.ptxsim_findings_json()
        cuda.ptxsim_clear()
        assert cuda.ptxsim_findings_json() == b"[]"
    """)  # fmt: skip


CHIPS = {"sm90a": (9, 0, 232448), "sm100a": (10, 0, 232448), "sm103a": (10, 3, 232448), "sm120a": (12, 0, 101376)}


@pytest.mark.parametrize("chip", CHIPS)
def test_chips(folder, chip):
    """Every image for GPUs has one."""
    passes(folder, f"""
        def attribute(number):
            value = c.c_int()
            ok(cuda.cudaDeviceGetAttribute(c.byref(value), number, 0))
            driver = c.c_int()
            assert cuda.cuDeviceGetAttribute(c.byref(driver), number, 0) == 0 and driver.value == value.value
            return value.value
        assert (attribute(75), attribute(76), attribute(97)) == {CHIPS[chip]}
        assert attribute(16) == 5
        blocks = c.c_int()
        ok(cuda.cudaOccupancyMaxActiveBlocksPerMultiprocessor(c.byref(blocks), stub, 256, c.c_size_t(40000)))
        assert blocks.value == (attribute(81)) // (40000 + 1024 + 1024)
    """, chip=chip, PTXSIM_MULTIPROCESSORS="5")  # fmt: skip
    assert set(build.cuda_image_names()) <= set(CHIPS)


@pytest.mark.parametrize("chip", [None, "sm42"])
def test_no_such_chip(folder, chip):
    done = run(folder, "", chip=chip)
    assert done.returncode == 2
    for piece in ("FP4AOT_SIM", "sm90a", "sm120a"):
        assert piece in done.stderr


def test_tensor_maps_are_checked(folder):
    passes(folder, """
        function, status = c.c_void_p(), c.c_int(-1)
        ok(cuda.cudaGetDriverEntryPointByVersion(b"cuTensorMapEncodeTiled", c.byref(function), 12000,
                                                 c.c_ulonglong(0), c.byref(status)))
        assert status.value == 0
        data, raw = allocate(4096), (c.c_ubyte * 192)()
        aligned = c.c_void_p((c.addressof(raw) + 63) // 64 * 64)
        def encode(address, stride=64, box=64, swizzle=0):
            sizes, strides = (c.c_ulonglong * 2)(64, 32), (c.c_ulonglong * 1)(stride)
            return cuda.cuTensorMapEncodeTiled(
                aligned, 0, 2, c.c_void_p(address), sizes, strides, (c.c_uint * 2)(box, 8), (c.c_uint * 2)(1, 1),
                0, swizzle, 0, 0)
        assert encode(data.value) == 0
        for wrong in ({"address": data.value + 8}, {"stride": 72}, {"box": 512}, {"swizzle": 1}):
            cuda.ptxsim_clear()
            assert encode(**({"address": data.value} | wrong)) == 1, wrong
            assert b"cuTensorMapEncodeTiled" in cuda.ptxsim_complaints()
        ok(cuda.cudaGetDriverEntryPointByVersion(b"cuNoSuch", c.byref(function), 12000, c.c_ulonglong(0),
                                                 c.byref(status)))
        assert function.value is None and status.value == 1
    """)  # fmt: skip
