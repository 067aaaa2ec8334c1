"""The simulator and its problems notice faults: each test edits the PTX of a kernel; the run must fail and say how."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from . import build
from .gemm_problems import Chain, Gemm
from .quantize_problems import Quantize
from .session import told
from .suite import Case
from .w4a16_problems import W4a16, W4a16Chain
from .worker import Worker

pytestmark = pytest.mark.ptxsim

WRONG = "out of tolerance|differ|NaN wrong"  # the result
NO_WAIT = r"griddepcontrol\.wait;"
CHAIN = Chain("gemm_nvfp4", 33, 136, 320)
QUANTIZE = Quantize("quantize_nvfp4", 130, 96)
WGMMA, MMA_SYNC, TCGEN05, BLOCK_SCALED = (
    Gemm("gemm_nvfp4", 33, 264, 352, only=f"^{name}$")
    for name in ("wgmma_128x64", "mma_sync_32x8_warps8", "tcgen05_1sm_128x128", "mma_sync_128x128")
)
STREAM = Gemm("gemm_nvfp4", 33, 264, 1376, only="^wgmma_stream_(64x16|128x64)$")  # more steps than its rings have
STREAM_CUT = Gemm("gemm_nvfp4", 33, 264, 1376, only="^wgmma_stream_128x(16|32)_cut$")
TMEM = "sm10[03]a"
W4A16 = W4a16("gemm_w4a16_nvfp4", 33, 264, 352, only="^wgmma_128x64$")
CUT = W4a16("gemm_w4a16_nvfp4", 9, 80, 1536, only="^wgmma_128x64_cut$")
SPLIT = W4a16("gemm_w4a16_mxfp4", 33, 136, 352, "fp16", "fp32", only="^wgmma_128x64$")
W4A16_TCGEN05 = W4a16("gemm_w4a16_nvfp4", 70, 264, 352, only="^tcgen05_128x64$")
W4A16_WAVES = W4a16("gemm_w4a16_nvfp4", 200, 520, 96, only="^tcgen05_128x64$")  # tiles follow one another
W4A16_SEGMENTS = W4a16("gemm_w4a16_nvfp4", 200, 520, 608, dtype="fp32", only="^tcgen05_128x64$")
W4A16_TCGEN05_SPLIT = W4a16("gemm_w4a16_mxfp4", 70, 136, 352, "fp16", only="^tcgen05_128x64$")
W4A16_TCGEN05_CHAIN = W4a16Chain("gemm_w4a16_nvfp4", 70, 136, 320, only="^tcgen05_128x64$")
TILE = "w4a16_mma_sync_tile"
W4A16_TILE, W4A16_BLOCKS = (
    W4a16(op, 70, 264, 352, a_dtype, only="^mma_sync_128x128$")
    for op, a_dtype in (("gemm_w4a16_nvfp4", "bf16"), ("gemm_w4a16_mxfp4", "fp16"))
)
W4A16_TILE_SHARES = W4a16("gemm_w4a16_nvfp4", 33, 136, 352, only="^mma_sync_128x64_cluster2$")
W4A16_TILE_CHAIN = W4a16Chain("gemm_w4a16_nvfp4", 70, 136, 320, only="^mma_sync_128x64$")
FEW = "w4a16_mma_sync_kernel"
FEW_WIDE, FEW_SMALL = (
    W4a16("gemm_w4a16_mxfp4", 12, 320, 2112, kind=kind, only="^mma_sync_(16x8|16x16)_cluster1$")
    for kind in ("wide", "small")
)
STREAMED = "w4a16_wgmma_few_kernel"
STREAMED_WIDE, STREAMED_SMALL = (
    W4a16("gemm_w4a16_mxfp4", 12, 264, 2112, kind=kind, only="^wgmma_64x(16|64)_cluster2$")
    for kind in ("wide", "small")
)
SPLIT_CHAIN = W4a16Chain("gemm_w4a16_mxfp4", 70, 136, 320, a_dtype="fp16", only="^wgmma_128x64$")


@dataclass(frozen=True)
class Mutation:
    name: str
    kernel: str  # regular expression that a kernel's mangled name matches
    pattern: str  # of what is edited; every occurrence in those kernels is
    replacement: str | Callable[[re.Match], str]
    problem: object
    symptom: str  # regular expression that the report's error matches
    image: str = ""  # regular expression; the mutation is for images that match

    def __str__(self) -> str:
        return self.name


def access(opcode: str) -> str:
    """Pattern of an access to memory through a register."""
    return rf"(?P<guard>@!?%\w+\s+)?{opcode}\s[^\[;]*\[(?P<address>%\w+)[^;]*;"


def flip_address_bit(bit: int) -> Callable[[re.Match], str]:
    """The access with this bit of its address register inverted."""

    def flipped(match: re.Match) -> str:
        register = match["address"]
        flip = f"{match['guard'] or ''}xor.b{64 if register.startswith('%rd') else 32} {register}, {register}, {bit};"
        return f"{flip} {match[0]} {flip}"

    return flipped


SWAP_FIRST_TWO = r"\g<head>\g<second>, \g<first>,"
MMA_ROWS = r"(?P<head>mma\.sync\.\S+\s*\{[^}]*\},\s*\{)(?P<first>%\w+),\s*(?P<second>%\w+),"
FENCE = r"fence\.proxy\.async[.:\w]*;"
TRY_WAIT = r"mbarrier\.try_wait\S*\s+(?P<result>\w+),[^;]*;"
TRUE = r"setp.eq.u32 \g<result>, 0, 0;"

MUTATIONS = (
    Mutation("quantising does not wait for the launch before", "quantize_small", NO_WAIT, ";", CHAIN, "pdl"),
    Mutation("a product does not wait for the launch before", "[Gg]emm", NO_WAIT, ";", CHAIN, "pdl"),
    Mutation("dequantising does not wait for the launch before", "dequantize", NO_WAIT, ";", CHAIN, "pdl"),
    Mutation("a bit of a stored scale's address", "quantize_small", access(r"st\.global\.[bus]8"),
             flip_address_bit(16), QUANTIZE, "differ|global"),
    Mutation("no fence before asynchronous reads", "wgmma_gemm", FENCE, ";", WGMMA, "fence", "sm90a"),
    Mutation("no wait for mbarriers", "wgmma_gemm", TRY_WAIT, TRUE, WGMMA, ".", "sm90a"),
    Mutation("a bit of a scale's address in shared memory", "wgmma_gemm", access(r"ld\.shared\.u16"),
             flip_address_bit(16), WGMMA, WRONG, "sm90a"),
    Mutation("rows of a wgmma fragment swapped", "wgmma_gemm",
             r"(?P<head>wgmma\.mma_async\S* \{[^}]*\}, \{)(?P<first>%\w+), (?P<second>%\w+),", SWAP_FIRST_TWO, WGMMA,
             WRONG, "sm90a"),
    Mutation("rows of an mma fragment swapped", "mma_sync_gemm", MMA_ROWS, SWAP_FIRST_TWO, MMA_SYNC, WRONG, "sm90a"),
    Mutation("no wait for copies to shared memory", "mma_sync_gemm", r"cp\.async\.wait_group\s*\d+;", ";",
             MMA_SYNC, ".", "sm90a"),
    Mutation("no barrier before sums are added", "mma_sync_gemm", r"bar\.sync\s[^;]*;", ";", MMA_SYNC, ".", "sm90a"),
    Mutation("W4A4, few rows: no wait for the expansion", "wgmma_stream", NO_WAIT, ";", STREAM, "pdl", "sm90a"),
    Mutation("W4A4, few rows: no wait for mbarriers", "wgmma_stream", TRY_WAIT, TRUE, STREAM, ".", "sm90a"),
    Mutation("W4A4, few rows: no wait for copies of weights", "wgmma_stream", r"cp\.async\.wait_group\s*\d+;", ";",
             STREAM, ".", "sm90a"),
    Mutation("W4A4, few rows: a bit of a scale's address", "wgmma_stream", access(r"ld\.shared\.u16"),
             flip_address_bit(4), STREAM, ".", "sm90a"),
    Mutation("W4A4, few rows, cut: no wait for the expansion", "wgmma_stream_cut", NO_WAIT, ";", STREAM_CUT, "pdl",
             "sm90a"),
    Mutation("W4A4, few rows, cut: parts counted twice", "wgmma_stream_cut",
             r"(?P<head>atom\.add\.acq_rel\S* %\w+, \[%\w+\], )1;", r"\g<head>2;", STREAM_CUT, ".", "sm90a"),
    Mutation("W4A4, few rows, cut: no barrier before sums are added", "wgmma_stream_cut", r"bar\.sync\s[^;]*;", ";",
             STREAM_CUT, ".", "sm90a"),
    Mutation("W4A16, few rows: large scales taken for small ones", FEW,
             r"(?P<head>and\.b(?:16|32)\s+%\w+, %\w+, )(?:32896|-32640);", r"\g<head>0;", FEW_WIDE, WRONG, "sm90a"),
    Mutation("W4A16, few rows: factors of small scales", FEW, r"\b1040203264;", "1040203776;", FEW_SMALL, WRONG,
             "sm90a"),
    Mutation("W4A16, few rows: no wait for mbarriers", FEW, TRY_WAIT, TRUE, FEW_SMALL, ".", "sm90a"),
    Mutation("W4A16 on wgmma, few rows: large scales taken for small ones", STREAMED,
             r"(?P<head>and\.b(?:16|32)\s+%\w+, %\w+, )(?:32896|-32640);", r"\g<head>0;", STREAMED_WIDE, WRONG,
             "sm90a"),
    Mutation("W4A16 on wgmma, few rows: factors of small scales", STREAMED, r"\b1040203264;", "1040203776;",
             STREAMED_SMALL, WRONG, "sm90a"),
    Mutation("W4A16 on wgmma, few rows: no wait for mbarriers", STREAMED, TRY_WAIT, TRUE, STREAMED_SMALL, ".", "sm90a"),
    Mutation("W4A16: codes of another lane", "W4a16Wgmma", access(r"ld\.shared\.u32"), flip_address_bit(16), W4A16,
             WRONG, "sm90a"),
    Mutation("W4A16: scales of another row", "W4a16Wgmma", access(r"ld\.shared\.v2\.u32"), flip_address_bit(8), W4A16,
             WRONG, "sm90a"),
    Mutation("W4A16: counters not cleared", "clear_counters", r"st\.global\.u32[^;]*;", ";", CUT, "uninitialised",
             "sm90a"),
    Mutation("W4A16: the rest of a split activation is lost", "split_activations",
             r"sub\.f32\s+(?P<lo>%\w+), [^;]*;", r"mov.f32 \g<lo>, 0f00000000;", SPLIT, WRONG, "sm90a"),
    Mutation("W4A16: splitting does not wait for the launch before", "split_activations", NO_WAIT, ";", SPLIT_CHAIN,
             "pdl|uninitialised", "sm90a"),
    Mutation("tcgen05: no fence before asynchronous reads", "gemm_tcgen05", FENCE, ";", TCGEN05, "fence", TMEM),
    Mutation("tcgen05: no wait for mbarriers", "gemm_tcgen05", TRY_WAIT, TRUE, TCGEN05, ".", TMEM),
    Mutation("tcgen05: scales of another column", "gemm_tcgen05",
             r"(?P<head>tcgen05\.mma\S*block_scale\S* [^;]*\[%\w+)(?P<tail>\], \w+;)", r"\g<head>+1\g<tail>", TCGEN05,
             "out of tolerance|tensor-memory", TMEM),
    Mutation("tcgen05: some scales not copied", "gemm_tcgen05", r"(tcgen05\.cp\S*\s[^;]*;)(?![\s\S]*tcgen05\.cp)", ";",
             TCGEN05, "out of tolerance|tensor-memory|uninitialised", TMEM),
    Mutation("tcgen05: operands exchanged", "gemm_tcgen05",
             r"(?P<head>tcgen05\.mma\S* \[%\w+\], )(?P<first>%\w+), (?P<second>%\w+),", SWAP_FIRST_TWO, TCGEN05, WRONG,
             TMEM),
    Mutation("W4A16 on tcgen05: rows of the operand swapped", "w4a16_tcgen05",
             r"(?P<head>tcgen05\.st\S*16x128b\S* \[%\w+\], \{)(?P<first>%\w+), (?P<second>%\w+),", SWAP_FIRST_TWO,
             W4A16_TCGEN05, WRONG, TMEM),
    Mutation("W4A16 on tcgen05: stores to tensor memory not waited for", "w4a16_tcgen05", r"tcgen05\.wait::st[^;]*;",
             ";", W4A16_TCGEN05, "tensor-memory-race", TMEM),
    Mutation("W4A16 on tcgen05: loads from tensor memory not waited for", "w4a16_tcgen05", r"tcgen05\.wait::ld[^;]*;",
             ";", W4A16_WAVES, "tensor-memory-race", TMEM),
    Mutation("W4A16 on tcgen05: no wait for mbarriers", "w4a16_tcgen05", TRY_WAIT, TRUE, W4A16_TCGEN05, ".", TMEM),
    Mutation("W4A16 on tcgen05: no fence before asynchronous stores", "w4a16_tcgen05", FENCE, ";", W4A16_TCGEN05,
             "fence", TMEM),
    Mutation("W4A16 on tcgen05: the operand of another column", "w4a16_tcgen05",
             r"(?P<head>tcgen05\.mma\S* \[%\w+\], \[%\w+)(?P<tail>\], %\w+, )", r"\g<head>+8\g<tail>", W4A16_TCGEN05,
             "out of tolerance|tensor-memory", TMEM),
    Mutation("W4A16 on tcgen05: sums of earlier segments left out", "w4a16_tcgen05",
             r"tcgen05\.st\S*32x32b[^;]*;", ";", W4A16_SEGMENTS, "tensor-memory|uninitialised|undefined", TMEM),
    Mutation("W4A16 on tcgen05: low parts of activations lost", "split_activations",
             r"sub\.f32\s+(?P<lo>%\w+), [^;]*;", r"mov.f32 \g<lo>, 0f00000000;", W4A16_TCGEN05_SPLIT, WRONG, TMEM),
    Mutation("W4A16 on tcgen05: does not wait for the launch before", "w4a16_tcgen05", NO_WAIT, ";",
             W4A16_TCGEN05_CHAIN, "pdl", TMEM),
    Mutation("W4A16 in tiles: rows of the operand swapped", TILE, MMA_ROWS, SWAP_FIRST_TWO, W4A16_TILE, WRONG,
             "sm120a"),
    Mutation("W4A16 in tiles: scales of another block", TILE, access(r"ld\.shared\.u16"), flip_address_bit(2),
             W4A16_TILE, WRONG, "sm120a"),
    Mutation("W4A16 in tiles: activations of another row", TILE, access(r"ldmatrix\S*"),
             flip_address_bit(128), W4A16_BLOCKS, WRONG, "sm120a"),
    Mutation("W4A16 in tiles: no wait for mbarriers", TILE, TRY_WAIT, TRUE, W4A16_TILE, ".", "sm120a"),
    Mutation("W4A16 in tiles: all sums go to one CTA", TILE, r"(?P<head>mapa\S* %\w+, %\w+, )%\w+;",
             r"\g<head>0;", W4A16_TILE_SHARES, ".", "sm120a"),
    Mutation("W4A16 in tiles: does not wait for the launch before", TILE, NO_WAIT, ";", W4A16_TILE_CHAIN, "pdl",
             "sm120a"),
    Mutation("block-scaled mma: rows of a fragment swapped", "gemm_mma_sync", MMA_ROWS, SWAP_FIRST_TWO, BLOCK_SCALED,
             WRONG, "sm120a"),
    Mutation("block-scaled mma: no wait for mbarriers", "gemm_mma_sync", TRY_WAIT, TRUE, BLOCK_SCALED, ".", "sm120a"),
    Mutation("block-scaled mma: no fence before asynchronous reads", "gemm_mma_sync", FENCE, ";", BLOCK_SCALED, "fence",
             "sm120a"),
)  # fmt: skip


def mutate(image: str, mutation: Mutation) -> dict:
    """PTX files with the mutation in them -> their text."""
    edited = {}
    for path in {path for name, path in build.kernels(image).items() if re.search(mutation.kernel, name)}:
        text, count = path.read_text(), 0
        pieces = re.split(r"(?m)^(?=.*\.entry )", text)
        for index, piece in enumerate(pieces):
            name = re.search(r"\.entry\s+([\w$.]+)", piece)
            if name and re.search(mutation.kernel, name[1]):
                pieces[index], edits = re.subn(mutation.pattern, mutation.replacement, piece)
                count += edits
        if count:
            edited[path] = "".join(pieces)
    return edited


CASES = [
    (image, mutation)
    for image in build.images()
    for mutation in MUTATIONS
    if re.search(mutation.image, image) and build.has_op(image, mutation.problem.op)
]


@pytest.mark.parametrize(("image", "mutation"), CASES, ids=lambda value: str(value).replace(" ", "_"))
def test_mutation_is_noticed(image, mutation, tmp_path):
    edited = mutate(image, mutation)
    assert edited, f"the PTX of {image} has no {mutation.pattern} in {mutation.kernel}: the mutation has to follow"
    folder = build.mutated_image(image, edited, tmp_path)
    worker = Worker(image, folder, threads=1)
    report = worker.run(mutation.problem)
    worker.close()
    assert report.error, "nothing was noticed"
    assert re.search(mutation.symptom, report.error), report.error
    assert "the simulator's process ended" not in report.error


@pytest.mark.parametrize("case", dict.fromkeys(Case(image, m.problem) for image, m in CASES), ids=str)
def test_without_a_mutation_nothing_is_noticed(results, case):
    results.check(case)


def test_every_check_is_told():
    """However many findings another check has, which may depend on what ran first."""
    findings = [{"check": "uninitialised", "line": line} for line in range(9)] + [{"check": "pdl", "line": 1}]
    assert [finding["check"] for finding in told(findings)] == ["uninitialised", "pdl", *["uninitialised"] * 3]
    assert told(findings[:2]) == findings[:2]
