"""Loading under a torch that already has a fp4aot, or that is broken."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import fp4aot
import pytest


def run(code: str, *, path: Path | None = None) -> str:
    """What a new process prints; it must end by itself, not by a signal."""
    package = Path(fp4aot.__file__).parent.parent
    lines = [f"import sys; sys.path.insert(0, {str(package)!r})"]
    if path is not None:
        lines.append(f"sys.path.insert(0, {str(path)!r})")
    result = subprocess.run(
        [sys.executable, "-c", "\n".join([*lines, code])], capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode == 0, (result.returncode, result.stderr[-2000:])
    return result.stdout


CALL = "import torch, fp4aot; print(fp4aot.quantize_nvfp4(torch.full((1, 16), 6.0))[0].tolist())"
SIXES = str([[0x77] * 8])  # 6 is e2m1's largest
FORGET = "for name in [name for name in sys.modules if name.startswith('fp4aot')]: del sys.modules[name]"


def test_a_second_copy_is_refused_and_the_first_can_be_imported_again(tmp_path):
    copy = tmp_path / "fp4aot"
    shutil.copytree(Path(fp4aot.__file__).parent, copy)
    output = run(f"""
{CALL}
{FORGET}
{CALL}
{FORGET}
sys.path.insert(0, {str(tmp_path)!r})
try:
    import fp4aot.torch_ops
except ImportError as error:
    print(error)
""")
    first, second, *rest = output.splitlines()
    assert first == second == SIXES
    text = "\n".join(rest)
    for library in (copy, Path(fp4aot.__file__).parent):
        assert f"{library}/lib/libfp4aot_torch.so" in text, text


def test_a_namespace_taken_by_other_code_is_refused():
    output = run("""
import torch
taken = torch.library.Library("fp4aot", "DEF")
try:
    import fp4aot.torch_ops
except ImportError as error:
    print(type(error).__name__, error)
""")
    assert re.search(r"TorchError .*libfp4aot_torch\.so cannot register torch\.ops\.fp4aot: .*other code", output), (
        output
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("raise OSError('libtorch_cpu.so: cannot open')", "OSError: libtorch_cpu.so: cannot open"),
        ("import no_such_dependency", "ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("undefined.name", "NameError"),
        ("x = 1", "has no __version__"),
        (None, "has no __version__"),
        ("__version__ = '1.9'", r"torch 1\.9 is installed"),
    ],
)
def test_a_broken_torch_leaves_numpy(tmp_path, source, text):
    (tmp_path / "torch").mkdir()
    if source is None:  # what an import of a folder without __init__.py leaves
        source = "import sys, types; sys.modules['torch'] = types.ModuleType('torch')"
    (tmp_path / "torch" / "__init__.py").write_text(source)
    output = run(
        """
import numpy, fp4aot
print(fp4aot.quantize_nvfp4(numpy.full((1, 16), 6.0, numpy.float32))[0].tolist())
try:
    import fp4aot.torch_ops
except fp4aot.TorchError as error:
    print(error)
""",
        path=tmp_path,
    )
    first, rest = output.split("\n", 1)
    assert first == SIXES
    assert re.search(text, rest), rest
