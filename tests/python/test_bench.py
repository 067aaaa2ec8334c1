"""`fp4aot bench` on the CPU: real runs on small shapes, what they write, and what wrong options say."""

import json
import os
import subprocess
import sys

import fp4aot
import installed
import pytest
import torch
from fp4aot import cli
from fp4aot.bench import check, host, operands, options

SMALL = ["bench", "--device", "cpu", "--shapes", "64x128", "--rows", "1,9"]


def run(*arguments: str, capsys) -> str:
    assert cli.main([*arguments]) == 0
    return capsys.readouterr().out


def test_command_names_variables_that_are_set(monkeypatch):
    for name in [name for name in os.environ if name.startswith("FP4AOT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FP4AOT_FORCE_IMAGE", "cpu")
    monkeypatch.setenv("FP4AOT_IMAGE_DIR", "")  # as if it were not
    assert options.command_line(["bench", "--quick"]) == "FP4AOT_FORCE_IMAGE=cpu python -m fp4aot bench --quick"


@pytest.mark.parametrize("suite", ["w4a16", "w4a4"])
def test_products(suite, tmp_path, capsys):
    path = tmp_path / "out.json"
    given = [*SMALL, "--suite", suite, "--quick", "--check", "--tactics", "--json", str(path), "--markdown"]
    out = run(*given, capsys=capsys)
    data = json.loads(path.read_text())
    assert (data["schema"], data["suite"], data["state"], data["turns"]) == (1, suite, "finished", 7)
    assert data["notes"] == []
    command = f"python -m fp4aot {' '.join(given)}"
    assert data["command"].endswith(command)
    assert [(row["format"], row["n"], row["k"], row["m"]) for row in data["results"]] == [
        (format, 64, 128, m) for format in ("nvfp4", "mxfp4") for m in (1, 9)
    ]
    for row in data["results"]:
        low, high = row["us_quartiles"]
        assert 0 < low <= row["us"] <= high
        assert set(row["peers"]) == {"torch fp32", "torch bf16"}
        for peer in row["peers"].values():
            assert peer["ratio"] == pytest.approx(peer["us"] / row["us"])
        assert row["floor"] is row["empty_us"] is row["tb_per_s_net"] is None
        assert row["tflops"] == pytest.approx(2e-6 * row["m"] * 64 * 128 / row["us"])
        vector = {"nvfp4": 16, "mxfp4": 32}[row["format"]]
        rows = 64 if suite == "w4a16" else 64 + row["m"]
        assert row["read_bytes"] == rows * (128 // 2 + 128 // vector)
        (verdict,) = row["check"].values()
        assert verdict["right"]
        assert 0 <= verdict["norm"] <= verdict["norm_bound"] == 1e-6
        assert list(row["tactics"]) == [row["tactic"]] == ["cpu"]
    environment = data["environment"]
    assert (environment["device"], environment["image"], environment["driver"]) == ("cpu", "cpu", None)
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["packages"]["fp4aot"] == fp4aot.__version__
    # what is printed: versions, date, command; a line a shape and a row; the tables
    assert out.startswith(environment["date"])
    assert f"torch {torch.__version__}" in out
    assert f"$ {data['command']}" in out
    assert "[1/2] nvfp4 N 64 K 128" in out
    assert "[2/2] mxfp4 N 64 K 128" in out
    op = "gemm_w4a16_mxfp4" if suite == "w4a16" else "gemm_mxfp4"
    assert f"**`{op}`**" in out
    assert "| M | 64 \N{MULTIPLICATION SIGN} 128 |" in out
    assert "4 results" in out


def test_host(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(host, "_BATCH", 20)
    path, table = tmp_path / "out.json", tmp_path / "out.md"
    out = run("bench", "--suite", "host", "--device", "cpu", "--quick", "--json", str(path), "--markdown", str(table),
              capsys=capsys)  # fmt: skip
    rows = {row["call"]: row for row in json.loads(path.read_text())["results"]}
    aims = {"quantize_nvfp4, out=": 6, "gemm_nvfp4": 8, "gemm_w4a16_nvfp4": 8, "gemm_w4a16_mxfp4, out=": 8}
    for call, aim in aims.items():
        assert rows[call]["aim"] == aim
        assert rows[call]["unit"] == "us"
        assert 0.1 < rows[call]["value"] < 10_000
        assert call in out
        assert f"| {call} | {rows[call]['value']:.1f} us | {aim} |" in table.read_text()
    assert rows["import fp4aot after torch"]["unit"] == "ms"


def test_wrong_result_fails(monkeypatch, capsys, tmp_path):
    """A product that is off by 1 % is named, written and the exit status."""
    product = operands.W4a16.product

    def off(self, tactic):
        call = product(self, tactic)
        return lambda: (call(), self.out.mul_(1.01))

    monkeypatch.setattr(operands.W4a16, "product", off)
    path = tmp_path / "out.json"
    assert cli.main([*SMALL, "--quick", "--check", "--format", "nvfp4", "--json", str(path)]) == 1
    data = json.loads(path.read_text())
    assert [row["check"]["cpu"]["right"] for row in data["results"]] == [False, False]
    assert data["notes"][0].startswith("WRONG: cpu, nvfp4 N 64 K 128 M 1: error 1.0e-02 (allowed 1.0e-06)")
    assert "  WRONG" in capsys.readouterr().out


def test_stopped_run_keeps_its_results(monkeypatch, capsys, tmp_path):
    def stop(self, m):
        if m == 9:
            raise KeyboardInterrupt
        return set_rows(self, m)

    set_rows = operands.W4a16.set_rows
    monkeypatch.setattr(operands.W4a16, "set_rows", stop)
    path, table = tmp_path / "out.json", tmp_path / "out.md"
    assert cli.main([*SMALL, "--quick", "--json", str(path), "--markdown", str(table)]) == 130
    data = json.loads(path.read_text())
    assert data["state"] == "stopped"
    assert [(row["format"], row["m"]) for row in data["results"]] == [("nvfp4", 1)]
    assert "| 1 | " in table.read_text()
    assert "stopped; the results so far are kept" in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.json", "out.md"]


def test_terminated_run_keeps_its_results(tmp_path):
    """SIGTERM, as a time limit sends it."""
    path = tmp_path / "out.json"
    command = [sys.executable, "-m", "fp4aot", "bench", "--device", "cpu", "--shapes", "64x128,128x64", "--rows",
               ",".join(map(str, range(1, 3000))), "--no-peers", "--json", str(path)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if " M    3 " in line:
                process.terminate()
                break
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    data = json.loads(path.read_text())
    assert data["state"] == "stopped"
    assert len(data["results"]) >= 3


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["--suite", "w4a8"], 2, "argument --suite: invalid choice: 'w4a8'"),
        (["--shapes", "4096"], 2, "'4096' is no shape; give NxK, separated by commas: 4096x7168"),
        (["--shapes", "64x128,"], 2, "'' is no shape"),
        (["--shapes", "-8x128"], 2, "expected one argument"),
        (["--rows", "1,0"], 2, "'0' is no number of rows (M); give positive integers"),
        (["--rows", "1;8"], 2, "'1;8' is no number of rows"),
        (["--shapes", "12x128"], 1, "--shapes 12x128 (N x K): nvfp4 weights of w4a16 have N a multiple of 8 and K"),
        (["--shapes", "8x48"], 1, "mxfp4 weights of w4a16 have N a multiple of 8 and K of 32"),
        (["--suite", "w4a4", "--shapes", "8x48"], 1, "nvfp4 weights of w4a4 have N a multiple of 8 and K of 32"),
        (["--suite", "host", "--rows", "1", "--check"], 1, "takes no --check, --rows"),
        (["--suite", "chain", "--tactics"], 1, "times default tactics, without peers, and takes no --tactics."),
        (["--suite", "chain", "--device", "cpu"], 1, "--suite chain needs a GPU that an image serves"),
        (["--suite", "chain", "--shapes", "64x24"], 1, "--shapes 64x24 (N x K): a chain goes back from N to K"),
        (["--suite", "chain", "--shapes", "24x64"], 1, "--shapes 24x64 (N x K): a chain goes back from N to K"),
        (["--suite", "chain", "--shapes", "48x64"], 1, "so mxfp4 weights have both a multiple of 32."),
        (["--json", "/no/such/folder/out.json"], 1, "is in a folder that does not exist (/no/such/folder)"),
        (["--markdown", "/"], 1, "--markdown / is a folder. Give the path of a file."),
    ],
)  # fmt: skip
def test_option_errors(given, status, said, capsys):
    try:
        returned = cli.main(["bench", "--device", "cpu", *given])
    except SystemExit as error:
        returned = error.code
    assert returned == status
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_output_without_the_characters():
    """A terminal or a log in ASCII: an escape takes the place of what it lacks, and nothing is lost."""
    code = f"import sys; from fp4aot import cli; sys.exit(cli.main({[*SMALL, '--quick', '--markdown']}))"
    printed = installed.python(code, env={"PYTHONIOENCODING": "ascii"}).stdout
    assert "64 \\xd7 128" in printed
    assert "results, " in printed.splitlines()[-1]


def test_no_cuda_device(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.main(["bench", "--device", "cuda"]) == 1
    said = capsys.readouterr().err
    assert "--device cuda: torch sees no CUDA device" in said
    assert "--device cpu measures the cpu image" in said


def test_no_torch():
    code = "import sys; sys.modules['torch'] = None; from fp4aot import cli; sys.exit(cli.main(['bench']))"
    done = installed.python(code, check=False)
    assert done.returncode == 1
    assert "torch is not installed, and this needs it: pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_command_alone_loads_nothing_slow():
    code = (
        "import sys; from fp4aot import cli; "
        "print(sorted({'torch', 'numpy', 'fp4aot.bench.products'} & set(sys.modules)))"
    )
    assert installed.python(code).stdout.strip() == "[]"


def test_check_bounds():
    """The verdict on results that are right, off by more than a rounding, or not numbers."""
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(5, 4096, generator=generator, dtype=torch.float64)
    b = torch.randn(7, 4096, generator=generator, dtype=torch.float64)
    reference = check.Reference(a, b, -0.5)
    exact = -0.5 * (a @ b.T)
    for dtype, norm in ((torch.bfloat16, 2e-3), (torch.float16, 3e-4), (torch.float32, 1e-6)):
        right = reference.compare(exact.to(dtype))
        assert right.is_right
        assert right.norm_bound == norm
        spoilt = exact.to(dtype)
        spoilt[2, 3] *= 1.05  # hardly seen in the norm of a large result, but in the element
        assert reference.compare(spoilt).element > 1
        assert not reference.compare(spoilt).is_right
        assert not reference.compare((exact * (1 + 2 * norm)).to(dtype)).is_right
        spoilt[2, 3] = float("nan")
        assert not reference.compare(spoilt).is_right
    zero = check.Reference(a * 0, b, 1.0)
    assert zero.compare(torch.zeros(5, 7)).is_right
    assert zero.compare(torch.full((5, 7), 1e-30)).element > 1


def test_plan_defaults():
    plan = options.Plan("w4a16")
    assert plan.shapes_on("cuda") == (
        (4096, 7168), (7168, 7168), (14336, 4096), (6656, 19968), (19968, 6656), (7168, 2048),
    )  # fmt: skip
    assert plan.rows_on("cuda") == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    quick = options.Plan("w4a16", quick=True)
    assert set(quick.shapes_on("cuda")) < set(plan.shapes_on("cuda"))
    assert set(quick.rows_on("cuda")) < set(plan.rows_on("cuda"))
    assert max(n * k for n, k in plan.shapes_on("cpu")) <= 4096 * 4096
    given = options.Plan("w4a16", shapes=((8, 16),), rows=(3,), quick=True)
    assert (given.shapes_on("cuda"), given.rows_on("cpu")) == (((8, 16),), (3,))
