"""The CUDA images as machine code: what they are made for and what they must not contain. Needs no GPU."""

import re

import installed
import pytest
import sass

pytestmark = pytest.mark.static

CUDA_IMAGES = [name for name in installed.image_names() if name != "cpu"]

# Shared memory that a block can have, in bytes, and the instructions without which an image misses its point.
SHARED_LIMIT = {"sm90a": 232_448, "sm100a": 232_448, "sm103a": 232_448, "sm120a": 101_376, "sm121a": 101_376}
TENSOR = ("HGMMA", "HMMA", "UTCHMMA", "UTCQMMA", "UTCOMMA", "OMMA", "QMMA")
REQUIRED = {
    "sm90a": {"HGMMA"},
    "sm100a": {"UTCOMMA"},
    "sm103a": {"UTCOMMA"},
    "sm120a": {"OMMA"},
    "sm121a": {"OMMA"},
}
# A kernel whose name says which instructions it is built on.
BY_NAME = {"wgmma": ("HGMMA",), "mma_sync": ("HMMA", "OMMA", "QMMA"), "tcgen05": ("UTCHMMA", "UTCQMMA", "UTCOMMA")}

GLOBAL_ACCESS = ("LDG", "STG", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS", "UTMALDG", "UTMASTG", "UBLKCP", "LD", "ST")

images = pytest.mark.parametrize("image", CUDA_IMAGES)


def kernels(image: str) -> list[sass.Kernel]:
    found = sass.kernels(installed.image_library(image))
    assert found, f"{image} has no kernels"
    return found


def complaints(image: str, judge) -> list[str]:
    """What `judge` says of each kernel, where it says something."""
    return [f"{kernel.name}: {text}" for kernel in kernels(image) if (text := judge(kernel))]


def test_there_is_an_image_or_it_was_not_asked_for():
    """Without a CUDA image the tests below are empty; CI builds them all."""
    installed.need(CUDA_IMAGES, "the installed package has no CUDA image: build with FP4AOT_IMAGES=all")


@images
def test_exactly_one_target(image):
    listed = sass.dump(installed.image_library(image), "--list-elf")
    targets = set(re.findall(r"\.(sm_\w+)\.cubin", listed))
    assert targets == {"sm_" + image.removeprefix("sm")}, listed


@images
def test_no_ptx(image):
    listed = sass.dump(installed.image_library(image), "--list-ptx")
    assert not re.search(r"\.ptx\b", listed), listed


@images
def test_every_kernel_has_code_and_resources(image):
    assert not complaints(image, lambda kernel: "" if len(kernel.code) > 8 and "REG" in kernel.resources else "empty")


@images
def test_no_spills(image):
    """No local memory at all, but for a few words outside the mainloop of a tensor kernel."""

    def judge(kernel: sass.Kernel) -> str:
        stack, local = kernel.resources["STACK"], kernel.resources["LOCAL"]
        loops = kernel.mainloops(TENSOR)
        if not loops:
            return f"stack {stack}, local {local}" if stack or local else ""
        inside = sorted({i.text for loop in loops for i in loop if i.name in ("LDL", "STL")})
        if inside:
            return f"{len(inside)} spills in the mainloop: {inside[:3]}"
        return f"stack {stack}, local {local}" if stack > 64 or local else ""

    assert not complaints(image, judge)


@images
def test_static_shared_memory_fits(image):
    limit = SHARED_LIMIT[image]
    assert not complaints(image, lambda k: "" if k.resources["SHARED"] <= min(limit, 48 * 1024) else f"{k.resources}")


@images
def test_tensor_instructions(image):
    used = {i.name for kernel in kernels(image) for i in kernel.all(*TENSOR)}
    assert used >= REQUIRED[image], f"{image} uses {sorted(used)}"

    def judge(kernel: sass.Kernel) -> str:
        for word, names in BY_NAME.items():
            if word in kernel.name and not kernel.all(*names):
                return f"no {' or '.join(names)}"
        return ""

    assert not complaints(image, judge)


@images
def test_every_product_uses_tensor_cores(image):
    def judge(kernel: sass.Kernel) -> str:
        return "no tensor instruction" if "gemm" in kernel.name and not kernel.all(*TENSOR) else ""

    assert any("gemm" in kernel.name for kernel in kernels(image))
    assert not complaints(image, judge)


@images
def test_programmatic_launches_wait(image):
    """Every kernel waits for its predecessor (ACQBULK) and lets its successor start (PREEXIT); in program order no
    access to global memory comes before the first wait. Necessary, not sufficient: races are tested on the GPU."""

    def judge(kernel: sass.Kernel) -> str:
        waits = kernel.all("ACQBULK")
        if not waits:
            return "never waits"
        if not kernel.all("PREEXIT"):
            return "never lets its successor start"
        early = [i.text for i in kernel.all(*GLOBAL_ACCESS) if i.address < waits[0].address]
        return f"before the wait: {early[:3]}" if early else ""

    assert not complaints(image, judge)


@images
def test_no_flush_to_zero(image):
    """formats.h is IEEE: products and fused products keep subnormals (no -ftz=true, no fast math)."""

    def judge(kernel: sass.Kernel) -> str:
        flushed = [i.text for i in kernel.code if i.name in ("FMUL", "FFMA") and ".FTZ" in i.opcode]
        allowed = 8 if "rmsnorm" in kernel.name else 0  # the compiler's own IEEE square root holds a few
        return f"{len(flushed)} flushing instructions: {flushed[:2]}" if len(flushed) > allowed else ""

    assert not complaints(image, judge)


@images
def test_no_double_precision(image):
    """A stray double literal costs 32 times: none of the kernels computes in fp64."""

    def judge(kernel: sass.Kernel) -> str:
        wide = [i.text for i in kernel.code if i.name in ("DADD", "DMUL", "DFMA", "DSETP")]
        return f"{wide[:2]}" if wide else ""

    assert not complaints(image, judge)
