"""The cpu image's units for AVX2 and AVX-512 define no code that the linker could share with other units.

An inline function or template of external linkage is emitted weak by every unit that does not inline it, and the linker
keeps one copy. Were it the AVX one, the portable path would run it on a processor without AVX. This looks at the
sources beside the tests, since an installed library no longer tells.
"""

from pathlib import Path

import installed
import pytest
from elftools.elf.elffile import ELFFile

pytestmark = pytest.mark.build

SOURCES = Path(__file__).parents[2] / "src" / "cpp"
FLAGS = {
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx2", "-mfma", "-mf16c"],
}


@pytest.mark.parametrize("isa", FLAGS)
def test_no_weak_code(isa, tmp_path):
    source = SOURCES / "images" / "cpu" / f"kernels_{isa}.cpp"
    installed.need(source.exists(), "the sources are not beside the tests")
    unit = installed.compile_object(
        source, tmp_path / "unit.o", "-std=c++17", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden",
        "-ffp-contract=off", *FLAGS[isa], "-I", SOURCES, "-I", SOURCES / "include",
    )  # fmt: skip
    with unit.open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".symtab").iter_symbols())
    code = [symbol for symbol in symbols if symbol["st_info"]["type"] == "STT_FUNC"]
    assert len(code) > 10
    assert [symbol.name for symbol in code if symbol["st_info"]["bind"] == "STB_WEAK"] == []
