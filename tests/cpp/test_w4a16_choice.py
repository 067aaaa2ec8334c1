"""What sm90a's rule chooses for gemm_w4a16_* against the best tactics that an H200 was measured to have. Needs no GPU.

`w4a16_h200.txt`: a line a product, format, N, K, M, then tactics that take at most KEPT times the best, each with its
microseconds. `python test_w4a16_choice.py w.json` prints it from what `fp4aot bench --suite w4a16 --tactics --json
w.json` wrote.
"""

import ctypes
import itertools
import json
import sys
from pathlib import Path

import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parents[2] / "src" / "cpp"
BF16, FP16, FP32 = 1, 2, 3
KEPT = 1.25


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    output = tmp_path_factory.mktemp("choice") / "w4a16_choice.so"
    source = Path(__file__).with_name("w4a16_choice.cpp")
    library = installed.load(installed.build_library(source, output, f"-I{SOURCE}", include=SOURCE / "include"))
    library.name.restype = ctypes.c_char_p
    library.cost.restype = ctypes.c_int64
    library.shared_of_launch.argtypes = [ctypes.c_uint32, ctypes.c_int64, ctypes.c_int, ctypes.c_uint32]
    library.shared_of_launch.restype = ctypes.c_uint32
    return library


def choose(rule, mxfp4: bool, m: int, n: int, k: int, a_dtype=BF16, d_dtype=BF16) -> tuple[int, str]:
    sizes = [ctypes.c_int64(value) for value in (m, n, k)]
    costs = [(rule.cost(mxfp4, *sizes, a_dtype, d_dtype, tactic), tactic) for tactic in range(rule.tactics())]
    cost, tactic = min(pair for pair in costs if pair[0] >= 0)
    return cost, rule.name(tactic).decode()


def measured() -> list[tuple[str, int, int, int, dict[str, float]]]:
    rows = []
    for line in Path(__file__).with_name("w4a16_h200.txt").read_text().splitlines():
        kind, n, k, m, *rest = line.split()
        times = dict(zip(rest[::2], map(float, rest[1::2]), strict=True))
        rows.append((kind, int(n), int(k), int(m), times))
    return rows


def test_the_choice_is_nearly_the_best_tactic(rule):
    lost = []
    for kind, n, k, m, times in measured():
        _, name = choose(rule, kind == "mxfp4", m, n, k)
        assert name in times, f"{kind} N {n} K {k} M {m}: {name} takes more than {KEPT} times the best"
        lost.append(times[name] / min(times.values()) - 1)
        assert lost[-1] <= 0.05, f"{kind} N {n} K {k} M {m}: {name} {times[name]}, best {min(times.values())}"
    assert len(lost) > 100
    assert sum(lost) / len(lost) <= 0.01


@pytest.mark.parametrize("bytes_", [0, 60 << 10, 110 << 10, 200 << 10])
def test_kernels_of_a_chain_do_not_share_a_multiprocessor_unless_they_have_to(rule, bytes_):
    plain, pdl, of_multiprocessor, system = 0, 1, 228 << 10, 1 << 10
    for ctas, log2 in ((1, 0), (131, 0), (132, 0), (132, 1), (120, 2), (120, 3)):
        assert rule.shared_of_launch(plain, ctas, log2, bytes_) == bytes_
        reserved = rule.shared_of_launch(pdl, ctas, log2, bytes_)
        assert max(bytes_, 113 << 10) <= reserved <= 227 << 10
        assert 2 * (reserved + system) > of_multiprocessor
    for ctas, log2 in ((133, 0), (134, 1), (124, 2), (128, 3)):  # two on some anyway, or a second wave
        assert rule.shared_of_launch(pdl, ctas, log2, bytes_) == bytes_


@pytest.mark.parametrize(("a_dtype", "d_dtype"), [(BF16, BF16), (FP16, FP16), (BF16, FP32)])
@pytest.mark.parametrize("mxfp4", [False, True])
def test_more_rows_or_columns_never_cost_much_less(rule, mxfp4, a_dtype, d_dtype):
    # Rows that fill a tile are quicker than some that do not: what a copy does not find costs more than what it finds.
    # With few columns a CTA has more parts of k, whose sums cost up to 1 us (N 4096: 16 parts 12.0 us, 4 parts 10.1).
    ms = [1, 2, 7, 8, 9, 16, 17, 32, 33, 48, 64, 65, 100, 128, 129, 192, 256, 257, 400, 512, 513, 800, 1024, 1025, 3000]
    ns = [8, 128, 136, 512, 1024, 1032, 2048, 4096, 6144, 7168, 8200, 14336, 28672]
    for k in (32, 512, 4096, 7200):
        costs = {(m, n): choose(rule, mxfp4, m, n, k, a_dtype, d_dtype)[0] for m in ms for n in ns}
        for m, n in itertools.product(ms, ns):
            more = min(costs[m2, n2] for m2 in ms if m2 >= m for n2 in ns if n2 >= n)
            assert costs[m, n] <= 1.25 * more, f"M {m} N {n} K {k}: {costs[m, n]} ns, a larger product {more}"


def table(path: str) -> str:
    lines = []
    for row in json.loads(Path(path).read_text())["results"]:
        times = sorted((us, name) for name, us in row["tactics"].items())
        kept = [f"{name} {us:.1f}" for us, name in times if us <= KEPT * times[0][0]]
        lines.append(" ".join([row["format"], *(str(row[key]) for key in "nkm"), *kept]))
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sys.argv[1]))
