"""The sm90a W4A4 kernels' sources on an emulated machine (machine.h says what it checks and what it does not).

The kernels of this checkout are copied with a few replacements, compiled by the host compiler with device/ beside this
file in the place of src/cpp/device, and run. No nvcc, no GPU; CUDA headers are found as in test_cutlass_layouts.
Faults are planted in the same copy, each behind a test of its name: a run with that name must fail, and say how.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import installed
import pytest
from cpp.test_cutlass_layouts import cuda_includes

pytestmark = pytest.mark.build

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src" / "cpp"
RUNS = {"wgmma": 26, "mma_sync": 18}  # comparisons that each program makes
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
        "dequant.cuh",
        'asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));',
        "product = machine::multiply_bf16x2(a, b);",
    ),
)


@dataclass(frozen=True)
class Fault:
    """`text` of a header, with `wrong` in its place while the fault is on; `symptom`: what the failing run prints."""

    name: str
    header: str
    text: str
    wrong: str
    symptom: str
    also: tuple[tuple[str, str], ...] = ()  # more such pairs


WRONG_RESULT = "mismatch at"
FAULTS = (
    Fault(
        "bias of the wrong column",
        "wgmma",
        "scale * sum[i + 2 * j + 1] + bias[j % 2]",
        "scale * sum[i + 2 * j + 1] + bias[j / 2]",
        WRONG_RESULT,
    ),
    Fault(
        "no wait for weights",
        "wgmma",
        "mbarrier_wait(map.weight_full(rings.raw.slot), rings.raw.parity);",
        ";",
        WRONG_RESULT,
    ),
    Fault(
        "no wait for activations",
        "wgmma",
        "if (q % 2 == 0) mbarrier_wait(map.unit_full(rings.ring.slot), rings.ring.parity);",
        ";",
        "mismatch at|mbarrier underflow|deadlock",
    ),
    Fault(
        "no wait for a free unit",
        "wgmma",
        "mbarrier_wait(map.unit_empty(ring.slot), ring.parity ^ 1);",
        ";",
        "mismatch at|mbarrier underflow|deadlock",
    ),
    Fault(
        "the other CTA's consumers are not waited for",
        "wgmma",
        "cluster_address(map.unit_empty(previous_unit), lane)",
        "cluster_address(map.unit_empty(previous_unit), blockIdx.x % args.schedule.pair)",
        "mismatch at|mbarrier underflow|deadlock",
    ),
    Fault(
        "unit released before its products are done",
        "wgmma",
        "wgmma_wait<1>();",
        "wgmma_wait<3>();",
        WRONG_RESULT,
    ),
    Fault(
        "slot of weights not released",
        "wgmma",
        "if (threadIdx.x % 32 == 0) mbarrier_arrive(map.weight_empty(rings.raw.slot));",
        ";",
        "deadlock",
    ),
    Fault(
        "too few bytes expected",
        "wgmma",
        "mbarrier_arrive_expect(weight_full, Config::kWeightBytes + Config::kWeightScaleBytes);",
        "mbarrier_arrive_expect(weight_full, Config::kWeightBytes);",
        "mbarrier underflow|mismatch at",
    ),
    Fault(
        "activations for one CTA of two",
        "wgmma",
        "(1u << args.schedule.pair) - 1",
        "1u << rank",
        "deadlock",
    ),
    Fault(
        "scales beyond k",
        "wgmma",
        "inside ? bytes[h] : 0",
        "bytes[h]",
        WRONG_RESULT,
    ),
    Fault(
        "a CTA ends before the other",
        "wgmma",
        "cluster_sync();  // the other CTA's copies and arrivals come here until it is done",
        ";",
        "of a CTA that has ended",
    ),
    Fault(
        "parts added before all are there",
        "wgmma",
        "static_cast<uint32_t>(last - first)",
        "static_cast<uint32_t>(last - first - 1)",
        "counter|mismatch at",
    ),
    Fault(
        "two parts in one place",
        "wgmma",
        "(of == first ? 1 : 0)",
        "0",
        WRONG_RESULT,
    ),
    Fault(
        "staging overwritten before it is read",
        "wgmma",
        "if (thread == 0) tma_store_wait_read();  // the previous tile's",
        ";",
        WRONG_RESULT,
    ),
    Fault(
        "values beyond k expanded",
        "expand",
        "block * kExpandBlock + 32 * t < args.k",
        "true",
        "read outside of the operands|mismatch at",
    ),
    Fault(
        "order along k",
        "expand",
        "shared_store4(own + ((4 * q + c) ^ lane / 4) * 16, pairs[c]);",
        "shared_store4(own + ((4 * q + (c ^ 1)) ^ lane / 4) * 16, pairs[c]);",
        WRONG_RESULT,
    ),
    Fault(
        "counters not set to zero",
        "expand",
        "args.counters[i] = 0;",
        ";",
        "mismatch at|counter",
    ),
    Fault(
        "no wait for copies",
        "mma_sync",
        "cp_async_wait<Config::kSlots - 1>();",
        "cp_async_wait<Config::kSlots>();",
        WRONG_RESULT,
    ),
    Fault(
        "rows beyond m",
        "mma_sync",
        "(tokens_inside_ >> tile & 1) != 0",
        "true",
        "read outside of the operands",
    ),
    Fault(
        "swapped operand",
        "mma_sync",
        "Operand::multiply(accumulator[strip][i], operand, tokens[i][w][2 * j], tokens[i][w][2 * j + 1]);",
        "Operand::multiply(accumulator[strip][i], operand, tokens[i][w][2 * j + 1], tokens[i][w][2 * j]);",
        WRONG_RESULT,
    ),
    Fault(
        "scales of another unit",
        "mma_sync",
        "scales_[i / Config::kScaleUnits] + i % Config::kScaleUnits * 4",
        "scales_[i / Config::kScaleUnits]",
        WRONG_RESULT,
    ),
    Fault(
        "scale of the other half",
        "mma_sync",
        "kNvfp4 ? scales + half : scales",
        "scales",
        WRONG_RESULT,
    ),
    Fault(
        "sums over slots in use",
        "mma_sync",
        "cp_async_wait<0>();\n  __syncthreads();",
        "cp_async_wait<0>();",
        WRONG_RESULT,
    ),
    Fault(
        "columns beyond n stored",
        "mma_sync",
        "if (token >= args.m || column >= args.n) continue;",
        "if (token >= args.m || column >= args.n + 1) continue;",
        "written outside of the output|mismatch at",  # or in the next row
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
    """The headers of kernels/gemm that the programs include, and that those include."""
    found: dict[Path, None] = {}
    left = [HERE / f"{program}.cpp" for program in programs]
    while left:
        for name in re.findall(r'#include "kernels/gemm/(\S+)"', left.pop().read_text()):
            header = SOURCES / "kernels" / "gemm" / name
            if header not in found:
                found[header] = None
                left.append(header)
    return list(found)


def prepare_kernels(folder: Path) -> None:
    """The kernels' headers in folder/kernels/gemm, readable for the host compiler and with the faults in them."""
    target = folder / "kernels" / "gemm"
    target.mkdir(parents=True)
    for source in headers_of(KERNELS):
        text = source.read_text()
        for header, old, new in REPLACEMENTS:
            if header == source.name:
                text = replace_once(text, old, new, header)
        for fault in FAULTS:
            if f"{fault.header}.cuh" == source.name:
                text = with_fault(fault, text)
        assert not re.search(r"asm(\(| volatile)|__shared__", text), f"{source} needs a replacement"
        (target / source.name).write_text(text)


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
    compilations = {}
    for kernel in KERNELS:
        command = [installed.compiler(), *flags, *includes, str(HERE / f"{kernel}.cpp"), "-o", str(folder / kernel)]
        compilations[kernel] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for kernel, compilation in compilations.items():
        output, _ = compilation.communicate()
        assert compilation.returncode == 0, f"{kernel}:\n{output}"
    return {kernel: folder / kernel for kernel in KERNELS}


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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_planted_fault_is_found(programs, fault):
    done = run(programs["wgmma" if fault.header == "expand" else fault.header], 1, fault.name)
    assert done.returncode == 1, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    assert re.search(fault.symptom, done.stdout.splitlines()[-1])
