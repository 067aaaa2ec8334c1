"""The sm90a products' kernels on an emulated machine (machine.h says what it checks and what it does not).

The kernels of this checkout are copied with a few replacements, compiled by the host compiler with device/ beside this
file in the place of src/cpp/device, and run. No nvcc, no GPU; CUDA headers are found as in test_cutlass_layouts.
Faults are planted in the same copy, each behind a test of its name: a run with that name must fail, and say how.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import installed
import pytest
from cpp.test_cutlass_layouts import cuda_includes
from emulation.fault import Fault
from emulation.faults import FAULTS

pytestmark = pytest.mark.build

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src" / "cpp"
RUNS = {"wgmma": 30, "mma_sync": 24, "wgmma_stream": 18, "wgmma_w4a16": 36}  # comparisons that each program makes
KERNELS = tuple(RUNS)

# What the host compiler cannot read: (header, text, replacement), each text once.
REPLACEMENTS = (
    (
        "wgmma.cuh",
        "extern __shared__ uint8_t shared[];",
        "uint8_t* const shared = machine::current->cta->shared.data();",
    ),
    (
        "expand.cuh",
        "__shared__ __align__(128) uint8_t shared[kExpandThreads / 32 * kExpandWarpBytes];",
        "uint8_t* const shared = machine::current->cta->shared.data();",
    ),
    (
        "mma_sync.cuh",
        "extern __shared__ __align__(16) float sums[];",
        "float* const sums = reinterpret_cast<float*>(machine::current->cta->shared.data());",
    ),
    (
        "wgmma_stream.cuh",
        "extern __shared__ __align__(128) uint8_t shared_memory[];",
        "uint8_t* const shared_memory = machine::current->cta->shared.data();",
    ),
    (
        "wgmma_stream_cut.cuh",
        "extern __shared__ __align__(128) uint8_t shared_memory[];",
        "uint8_t* const shared_memory = machine::current->cta->shared.data();",
    ),
    (
        "dequant.cuh",
        'asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));',
        "product = machine::multiply_bf16x2(a, b);",
    ),
    (
        "operand.cuh",
        'asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(word) : "r"(a), "r"(b), "n"(kMask));',
        "word = (a & kMask) | (b & ~kMask);",
    ),
    (
        "operand.cuh",
        'asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(pair), "r"(factors));',
        "word = machine::multiply_bf16x2(pair, factors);",
    ),
    (
        "operand.cuh",
        'asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(word) : "r"(pair), "r"(factors));',
        "word = machine::multiply_f16x2(pair, factors);",
    ),
    (
        "operand.cuh",
        'asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(f) : "r"(normal), "r"(0x3F803F80u), "r"(0xF000F000u));',
        "f = machine::add_bf16x2(normal, 0xF000F000u);",
    ),
    (
        "operand.cuh",
        'asm("max.bf16x2 %0, %1, %2;" : "=r"(f) : "r"(normal), "r"(0x00400040u));',
        "f = machine::max_bf16x2(normal, 0x00400040u);",
    ),
    (
        "operand.cuh",
        'asm("fma.rn.bf16x2 %0, %1, %2, %1;" : "=r"(f) : "r"(f), "r"(0u));',
        "f = machine::add_bf16x2(machine::multiply_bf16x2(f, 0), f);",
    ),
    (
        "operand.cuh",
        """asm("{\\n"
        ".reg .b16 low, high;\\n"
        "mov.b32 {low, high}, %2;\\n"
        "mov.b32 %0, {low, low};\\n"
        "mov.b32 %1, {high, high};\\n"
        "}"
        : "=r"(row[0]), "=r"(row[1])
        : "r"(f));""",
        "row[0] = __byte_perm(f, 0, 0x1010), row[1] = __byte_perm(f, 0, 0x3232);",
    ),
)


def replace_once(text: str, old: str, new: str, header: str) -> str:
    assert text.count(old) == 1, f"{header} has changed, and this test has to follow: not once in it: {old}"
    return text.replace(old, new)


def with_fault(fault: Fault, text: str) -> str:
    """Both variants, chosen when the program runs: a compilation for each fault would take minutes."""
    condition = f'machine::planted("{fault.name}")'
    for right, wrong in ((fault.text, fault.wrong), *fault.also):
        if ";" in right:  # statements, perhaps with a comment behind
            new = f"if ({condition}) {{ {wrong}\n}} else {{ {right}\n}}"
        else:
            new = f"({condition} ? ({wrong}) : ({right}))"
        text = replace_once(text, right, new, f"{fault.header}.cuh")
    return text


def headers_of(programs: tuple[str, ...]) -> list[Path]:
    """The headers of kernels that the programs include, and that those include, unless this folder has its own."""
    found: dict[Path, None] = {}
    left = [HERE / f"{program}.cpp" for program in programs]
    while left:
        for name in re.findall(r'#include "((?:kernels|device)/\S+)"', left.pop().read_text()):
            header = SOURCES / name
            if header not in found and not (HERE / name).exists():
                found[header] = None
                left.append(header)
    return list(found)


def prepare_kernels(folder: Path) -> None:
    """The kernels' headers in folder, readable for the host compiler and with the faults in them."""
    for source in headers_of(KERNELS):
        text = source.read_text()
        for header, old, new in REPLACEMENTS:
            if header == source.name:
                text = replace_once(text, old, new, header)
        for fault in FAULTS:
            if SOURCES / "kernels" / ("" if "/" in fault.header else "gemm") / f"{fault.header}.cuh" == source:
                text = with_fault(fault, text)
        assert not re.search(r"asm(\(| volatile)|__shared__", text), f"{source} needs a replacement"
        target = folder / source.relative_to(SOURCES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> dict[str, Path]:
    """A program for each kernel, compiled side by side."""
    cuda = cuda_includes()
    installed.need(SOURCES.is_dir(), "no sources beside the tests")
    installed.need(cuda, "no CUDA headers: set CUDA_HOME, or pip install nvidia-cuda-runtime nvidia-cuda-cccl")
    folder = tmp_path_factory.mktemp("emulation")
    prepare_kernels(folder)
    includes = [flag for path in (HERE, folder, SOURCES / "include", *cuda) for flag in ("-I", str(path))]
    # Threads jump between stacks, which _FORTIFY_SOURCE takes for an error.
    flags = ["-std=c++17", "-O2", "-w", "-U_FORTIFY_SOURCE"]

    def build(kernel: str) -> Path:
        unit = installed.compile_object(HERE / f"{kernel}.cpp", folder / f"{kernel}.o", *flags, *includes)
        installed.run(installed.compiler(), unit, "-o", folder / kernel)
        return folder / kernel

    with ThreadPoolExecutor(len(KERNELS)) as side_by_side:
        return dict(zip(KERNELS, side_by_side.map(build, KERNELS), strict=True))


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_results_are_those_of_the_reference(programs, kernel, seed):
    done = run(programs[kernel], seed)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == RUNS[kernel]
    assert all(line.endswith(": equal") for line in lines)


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_thread_has_to_be_quick(programs, kernel):
    done = run(programs[kernel], 1, "a late thread")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": equal\n") == RUNS[kernel]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_planted_fault_is_found(programs, fault):
    own = "wgmma_w4a16" if "/" in fault.header else fault.header if fault.header in programs else "wgmma"
    program = fault.program or own
    done = run(programs[program], 1, fault.name)
    assert done.returncode == 1, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    assert re.search(fault.symptom, done.stdout.splitlines()[-1])
