"""The Blackwell images as machine code: every kernel of the matrix products is what its name says. Needs no GPU."""

import ctypes
import re

import installed
import kernel_table
import pytest
import sass
from test_images import SHARED_LIMIT

pytestmark = pytest.mark.static

IMAGES = [name for name in kernel_table.IMAGES if name in installed.image_names()]
PINNED_TOOLKIT = 13000
images = pytest.mark.parametrize("image", IMAGES)


def products(image: str) -> list[tuple[kernel_table.Product, sass.Kernel]]:
    kernels = sass.kernels(installed.image_library(image))
    return [(found, kernel) for kernel in kernels if (found := kernel_table.product(kernel.name))]


def toolkit(image: str) -> int:
    """CUDART_VERSION that the image says it was built with: the sixth of its first fields."""
    entry = installed.load(installed.image_library(image)).fp4aot_image
    entry.restype = ctypes.POINTER(ctypes.c_byte)
    fields = ctypes.cast(entry(), ctypes.POINTER(ctypes.c_uint32))
    return fields[6]  # after four words and a pointer


@images
def test_every_product_is_in_the_table(image):
    gemms = [kernel.name for kernel in sass.kernels(installed.image_library(image)) if "gemm" in kernel.name]
    assert len(gemms) == len(products(image)) > 0
    formats = {(found.format, found.output) for found, _ in products(image)}
    assert formats == {(f, o) for f in ("nvfp4", "mxfp4") for o in ("bf16", "fp16", "fp32")}


@images
def test_shared_memory_is_within_the_chip(image):
    for found, kernel in products(image):
        assert found.shared + kernel.resources["SHARED"] <= SHARED_LIMIT[image] + 1024, found


@images
def test_block_scaled_instructions(image):
    """NVFP4 has a scale for 16 values, MXFP4 for 32; a pair of SMs runs the instructions for pairs."""
    for found, kernel in products(image):
        opcodes = {instruction.opcode for instruction in kernel.all(*kernel_table.TENSOR)}
        assert opcodes, found
        if image == "sm120a":
            assert all(opcode.startswith("OMMA.SF") for opcode in opcodes), (found, opcodes)
            continue
        assert all(opcode.startswith("UTCOMMA") for opcode in opcodes), (found, opcodes)
        assert all((".2CTA" in opcode) == ("two SMs" in found.form) for opcode in opcodes), (found, opcodes)


@images
def test_formats_use_different_instructions(image):
    used = {"nvfp4": set(), "mxfp4": set()}
    for found, kernel in products(image):
        used[found.format] |= {i.opcode for i in kernel.all(*kernel_table.TENSOR)}
    assert not used["nvfp4"] & used["mxfp4"], used


@images
def test_instruction_descriptors(image):
    """The upper half of a tcgen05.mma's descriptor is a constant of the kernel: bit 15 says K = 96 (ultra), 11 and 12
    the rows in units of 128, 7 that scales are ue8m0, and 1 to 6 the columns in units of 8."""
    if image == "sm120a":
        pytest.skip("mma.sync has no descriptors")
    for found, kernel in products(image):
        rows, columns, _ = map(int, found.tile.split("x"))
        expected = found.ultra << 15 | rows // 128 << 11 | (found.format == "mxfp4") << 7 | columns // 8 << 1
        words = {int(word, 16) for i in kernel.all("ULOP3", "LOP3") for word in re.findall(r" 0x([0-9a-f]+),", i.text)}
        assert expected in words, (found, hex(expected), sorted(map(hex, words)))
        assert expected ^ 0x8000 not in words, (found, hex(expected))
    assert any(found.ultra for found, _ in products(image)) == (image == "sm103a")


@images
def test_wide_stores(image):
    """256-bit stores where the name says so, and nowhere else."""
    wide = 0
    for found, kernel in products(image):
        stores = [i.opcode for i in kernel.all("STG") if ".256" in i.opcode]
        assert bool(stores) == (found.store == "32 bytes"), (found, stores)
        wide += bool(stores)
    assert (wide > 0) == (image == "sm103a")


@images
def test_w4a16_on_tcgen05(image):
    """Every product has its weights in tensor memory, where a store of fragments puts them, and the instruction
    descriptor of its tile: 128 rows, tokens, types of operands, fp32 sums."""
    if image == "sm120a":
        pytest.skip("no tensor memory")
    kernels = sass.kernels(installed.image_library(image))
    found = [(which, kernel) for kernel in kernels if (which := kernel_table.w4a16_product(kernel.name))]
    assert {(w.format, w.bf16) for w, _ in found} == {("nvfp4", True), ("nvfp4", False), ("mxfp4", True)}
    assert {(w.tokens, w.fp32) for w, _ in found} == {(t, f) for t in (64, 128, 256) for f in (False, t < 256)}
    for which, kernel in found:
        products = kernel.all("UTCHMMA")
        assert products, which
        assert all(re.match(r"UTCHMMA tmem\[\w+\], gdesc\[\w+\], tmem\[", i.text) for i in products), products
        assert kernel.all("STTM"), which
        assert {i.opcode for i in kernel.all("STTM")} <= {"STTM.16dp128bit.x8", "STTM.x32"}, which
        # Bits 24: rows / 16; 17: columns / 8; 10 and 7: bf16; 4: fp32 sums.
        types = 0x480 if which.bf16 else 0
        descriptor = 8 << 24 | which.tokens // 8 << 17 | types | 0x10
        words = {int(word, 16) for i in kernel.code for word in re.findall(r" 0x([0-9a-f]+)\b", i.text)}
        assert descriptor in words, (which, hex(descriptor))
        assert descriptor ^ 0x480 not in words, which


@images
def test_w4a16_in_tiles_on_mma_sync(image):
    """Products have the right operands and as many instructions as their tiles; all that they multiply comes by tensor
    maps; products claim registers; and nothing is called: the compiler calls for copies to another CTA's memory."""
    if image != "sm120a":
        pytest.skip("other images have tcgen05 for many rows")
    kernels = sass.kernels(installed.image_library(image))
    w4a16 = [kernel for kernel in kernels if "w4a16" in kernel.name]
    assert not [kernel.name for kernel in w4a16 if kernel.all("CALL")]
    found = [(which, kernel) for kernel in w4a16 if (which := kernel_table.w4a16_product(kernel.name))]
    whole = {(rows, tokens, fp32) for rows, tokens in ((256, 128), (128, 128), (128, 64)) for fp32 in (False, True)}
    whole.remove((256, 128, True))
    for format, bf16 in ((f, t) for f in ("nvfp4", "mxfp4") for t in (True, False)):
        blocks = format == "mxfp4" and not bf16
        of_type = {(w.rows, w.tokens, w.fp32) for w, _ in found if (w.format, w.bf16) == (format, bf16)}
        assert of_type == {t for t in whole if not (blocks and t[2])}, (format, bf16)
    for which, kernel in found:
        products = {i.opcode for i in kernel.all("HMMA")}
        assert products == {"HMMA.16816.F32.BF16" if which.bf16 else "HMMA.16816.F32"}, (which, products)
        # A warp has an eighth of the rows: products of 16 rows, 8 tokens and 16 k, for a loop of 64 k or a block of 32.
        steps = 2 if which.blocks else 4
        assert len(kernel.all("HMMA")) == which.rows // 128 * which.tokens // 8 * steps, which
        assert len(kernel.all("UTMALDG")) == 2, which
        assert not kernel.all("LDGSTS", "UBLKCP"), which
        assert bool(kernel.all("LDSM")) == which.blocks, which
        assert [i for i in kernel.all("USETMAXREG") if "ALLOC" in i.opcode and "0xf0" in i.text], which


@images
def test_quantising_uses_the_conversion_instruction(image):
    for kernel in sass.kernels(installed.image_library(image)):
        if re.search(r"quantize_(rows|small)_kernel|rmsnorm_(quantize|small)_kernel", kernel.name):
            assert any("E2M1" in i.opcode for i in kernel.code), kernel.name


def test_table_is_current():
    """docs/kernels.md is what kernel_table.py writes."""
    installed.need(list(kernel_table.IMAGES) == IMAGES, "not all Blackwell images are installed: FP4AOT_IMAGES=all")
    if any(toolkit(image) != PINNED_TOOLKIT for image in IMAGES):
        pytest.skip("built by another toolkit than the table")
    written = kernel_table.DOCUMENT.read_text()
    assert written == kernel_table.document(), "run python tests/static/kernel_table.py and commit docs/kernels.md"
