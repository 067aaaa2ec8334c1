"""The simulator's functional units: number formats, tensor maps, matrix layouts and products.

units/*.cpp are programs that hold cases written by hand or definitions of their own; units/cute_layouts.cpp compares
with CuTe's layouts. For each layout and rule, a copy of the units with a fault planted must make a program fail.
"""

import struct
from pathlib import Path

import installed
import numpy as np
import pytest
from cpp.test_cutlass_layouts import cuda_includes, cutlass_include
from reference import formats

pytestmark = pytest.mark.build

HERE = Path(__file__).parent
UNITS = HERE / "src" / "units"
PROGRAMS = ("tensor_maps", "warp_mma", "tensor_core")
FLAGS = ("-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Object file of each unit and of each test program, by stem."""
    folder = tmp_path_factory.mktemp("units")
    made = {}
    for source in [*sorted(UNITS.glob("*.cpp")), *(HERE / "units" / f"{name}.cpp" for name in (*PROGRAMS, "codecs"))]:
        made[source.stem] = folder / f"{source.parent.parent.name}-{source.stem}.o"
        compile_to(made[source.stem], source)
    return made


def compile_to(output: Path, source: Path, *first: object) -> None:
    installed.compile_object(source, output, *FLAGS, *first, "-I", HERE, "-I", HERE / "src")


def unit_objects(objects: dict[str, Path]) -> dict[str, Path]:
    return {name: path for name, path in objects.items() if name not in (*PROGRAMS, "codecs")}


def link(objects: dict[str, Path], program: str, folder: Path) -> Path:
    output = folder / program
    installed.run(installed.compiler(), objects[program], *unit_objects(objects).values(), "-o", output)
    return output


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(objects, tmp_path, program):
    checks, _, failures, _ = installed.run(link(objects, program, tmp_path)).stdout.split()[-4:]
    assert int(failures) == 0
    assert int(checks) > 1000


def test_layouts_are_cute_layouts(objects, tmp_path):
    cutlass, cuda = cutlass_include(), cuda_includes()
    installed.need(cutlass, "no CUTLASS >= 4.7 headers: set FP4AOT_CUTLASS_DIR or pip install sgl-deep-gemm")
    installed.need(cuda, "no CUDA headers: set CUDA_HOME, or pip install nvidia-cuda-runtime nvidia-cuda-cccl")
    program = tmp_path / "cute_layouts"
    includes = [flag for folder in (HERE, HERE / "src", cutlass, *cuda) for flag in ("-I", folder)]
    source = HERE / "units" / "cute_layouts.cpp"
    unit = installed.compile_object(source, tmp_path / "cute_layouts.o", "-std=c++17", "-O1", "-w", *includes)
    installed.run(installed.compiler(), unit, *unit_objects(objects).values(), "-o", program)
    lines = [line.split() for line in installed.run(program).stdout.splitlines()]
    assert len(lines) == 52
    assert all(int(checks) > 0 and int(differences) == 0 for _, checks, differences in lines)


def codecs(objects, folder, commands: list[str]) -> list[str]:
    done = installed.run(link(objects, "codecs", folder), input="\n".join(commands) + "\n")
    answers = done.stdout.split()
    assert len(answers) == len(commands)
    return answers


def float_of(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_of(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def double_of(text: str) -> float:
    return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]


def test_codes_have_the_values_of_the_reference(objects, tmp_path):
    with np.errstate(invalid="ignore"):
        bf16 = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
        fp16 = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    expected = {
        "e2m1": formats.decode_e2m1(np.arange(16)),
        "e4m3": np.concatenate([formats.decode_e4m3(np.arange(128)), -formats.decode_e4m3(np.arange(128))]),
        "ue8m0": formats.decode_ue8m0(np.arange(256)),
        "fp16": fp16,
        "bf16": bf16,
    }
    for name, values in expected.items():
        answers = codecs(objects, tmp_path, [f"decode {name} {code:x}" for code in range(len(values))])
        got = np.array([double_of(text) for text in answers])
        np.testing.assert_array_equal(got, values, err_msg=name)
        assert (np.signbit(got) == np.signbit(values))[~np.isnan(values)].all(), name


def interesting(table: np.ndarray) -> np.ndarray:
    """float32: the values, the middles between neighbours, the floats next to both, and some of every exponent."""
    middles = (table[:-1] + table[1:]) / 2
    points = np.concatenate([table, middles, [table[-1] * 1.5, table[-1] * 100]]).astype(np.float32)
    around = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-1))])
    around = np.abs(around[np.isfinite(around)])
    spread = np.random.default_rng(3).integers(0, 0x7F800000, 4000).astype(np.uint32).view(np.float32)
    values = np.concatenate([around, spread])
    return np.concatenate([values, -values]).astype(np.float32)


def test_rounding_is_that_of_the_reference(objects, tmp_path):
    for name, table, encode in (
        ("e2m1", formats.E2M1, formats.encode_e2m1),
        ("e4m3", formats.E4M3, lambda v: formats.encode_e4m3(np.abs(v)) | np.where(np.signbit(v), 128, 0)),
    ):
        values = interesting(table)
        answers = codecs(objects, tmp_path, [f"encode {name} rn 1 0 {bits_of(v):x}" for v in values])
        np.testing.assert_array_equal(np.array(answers, int), encode(values).astype(int), err_msg=name)
        relu = codecs(objects, tmp_path, [f"encode {name} rn 1 1 {bits_of(v):x}" for v in values])
        np.testing.assert_array_equal(
            np.array(relu, int), np.where(np.signbit(values), 0, encode(values)), err_msg=name
        )
    values = interesting(formats.E4M3)
    for name, dtype, bits in (("bf16", "bf16", 16), ("fp16", "fp16", None)):
        answers = codecs(objects, tmp_path, [f"encode {name} rn 0 0 {bits_of(v):x}" for v in values])
        rounded = formats.round_to(values, dtype)
        codes = rounded.view(np.uint32) >> bits if bits else rounded.astype(np.float16).view(np.uint16)
        np.testing.assert_array_equal(np.array(answers, int), codes.astype(int), err_msg=name)


def test_special_conversions(objects, tmp_path):
    nan, inf = 0x7FC00000, 0x7F800000
    cases = [
        ("e2m1 rn 1 0", nan, 0x7), ("e2m1 rn 1 0", 0xFFC00000, 0x7), ("e2m1 rn 1 0", inf | 1 << 31, 0xF),
        ("e2m1 rn 1 0", bits_of(-0.0), 0x8), ("e2m1 rn 1 0", bits_of(-0.1), 0x8), ("e2m1 rn 1 1", bits_of(-0.1), 0x0),
        ("e4m3 rn 1 0", nan, 0x7F), ("e4m3 rn 1 0", inf, 0x7E), ("e4m3 rn 1 0", bits_of(-1000.0), 0xFE),
        ("e5m2 rn 1 0", inf, 0x7B), ("e5m2 rn 0 0", inf, 0x7C), ("e5m2 rn 0 0", nan, 0x7F),
        ("bf16 rn 0 0", 0xFF800001, 0x7FFF), ("bf16 rz 0 0", 0x7F7FFFFF, 0x7F7F), ("bf16 rn 0 0", 0x7F7FFFFF, 0x7F80),
        ("bf16 rn 1 0", 0x7F7FFFFF, 0x7F7F), ("bf16 rz 0 0", bits_of(-1.0078124), 0xBF80),
        ("bf16 rn 0 1", bits_of(-2.0), 0), ("fp16 rn 0 0", bits_of(65520.0), 0x7C00),
        ("fp16 rz 0 0", bits_of(65535.0), 0x7BFF), ("fp16 rn 0 0", nan, 0x7FFF),
        ("fp16 rn 0 0", bits_of(2.0**-25), 0), ("fp16 rn 0 0", bits_of(2.0**-25 * 1.001), 1),
        ("tf32 rna 0 0", bits_of(1 + 2.0**-11), bits_of(1 + 2.0**-10)),
        ("tf32 rn 0 0", bits_of(1 + 2.0**-11), bits_of(1.0)), ("tf32 rna 0 0", nan, 0x7FFFFFFF),
        ("tf32 rz 0 0", bits_of(1.9999), bits_of(1.9990234375)), ("ue8m0 rz 1 0", bits_of(3.99), 128),
        ("ue8m0 rp 1 0", bits_of(4.0), 129), ("ue8m0 rp 1 0", bits_of(4.0001), 130),
        ("ue8m0 rp 1 0", bits_of(0.0), 0), ("ue8m0 rz 1 0", 0x00400000, 0), ("ue8m0 rp 1 0", 0x00400000, 0),
        ("ue8m0 rp 1 0", 0x00400001, 1), ("ue8m0 rz 1 0", 0x00400001, 0), ("ue8m0 rp 1 0", nan, 0xFF),
        ("ue8m0 rp 1 0", inf, 0xFE), ("ue8m0 rp 0 0", inf, 0xFF), ("ue8m0 rp 1 0", 0x7F7FFFFF, 0xFE),
        ("ue8m0 rp 0 0", 0x7F7FFFFF, 0xFF), ("ue8m0 rz 0 0", 0x7F7FFFFF, 0xFE), ("ue8m0 rz 1 0", bits_of(-8.0), 130),
    ]  # fmt: skip
    answers = codecs(objects, tmp_path, [f"encode {what} {bits:x}" for what, bits, _ in cases])
    wrong = [(*case, int(answer)) for case, answer in zip(cases, answers, strict=True) if int(answer) != case[2]]
    assert not wrong


def faults() -> list[tuple[str, ...]]:
    """(program, file, text, wrong text) of each block of faults.txt."""
    blocks = (HERE / "units" / "faults.txt").read_text().strip().split("\n\n")[1:]
    lines = [block.split("\n") for block in blocks]
    return [(*where.split(), text.removeprefix("- "), wrong.removeprefix("+ ")) for where, text, wrong in lines]


@pytest.mark.parametrize(("program", "file", "text", "wrong"), faults())
def test_planted_fault_is_found(objects, tmp_path, program, file, text, wrong):
    copy = tmp_path / "units"
    copy.mkdir()
    for source in UNITS.iterdir():
        content = source.read_text()
        if source.name == file:
            assert content.count(text) == 1, f"{text!r} stands {content.count(text)} times in {file}"
            content = content.replace(text, wrong)
        (copy / source.name).write_text(content)
    changed = dict(objects)
    users = [file] if file.endswith(".cpp") else [p.name for p in UNITS.glob("*.cpp") if uses(p, file)]
    quick = ("-w", "-I", tmp_path)  # a fault may leave things unused
    for name in users:
        changed[Path(name).stem] = tmp_path / f"{name}.o"
        compile_to(changed[Path(name).stem], copy / name, *quick)
    if file.endswith(".h"):
        changed[program] = tmp_path / "program.o"
        compile_to(changed[program], HERE / "units" / f"{program}.cpp", *quick)
    with pytest.raises(AssertionError, match="failures"):
        installed.run(link(changed, program, tmp_path))


def uses(source: Path, header: str) -> bool:
    """Whether a unit includes the header, itself or through another header of the units."""
    seen, todo = set(), [source]
    while todo:
        for line in todo.pop().read_text().splitlines():
            if line.startswith('#include "units/') and (name := line.split("/")[1].rstrip('"')) not in seen:
                seen.add(name)
                todo.append(UNITS / name)
    return header in seen
