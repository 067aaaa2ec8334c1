"""What the installed libraries export and need."""

import c_abi
import installed
import pytest
from elftools.elf.elffile import ELFFile

# Of manylinux_2_28 (AlmaLinux 8): glibc 2.28 and the libraries that PEP 600 allows everywhere.
GLIBC = (2, 28)
SYSTEM = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
}


def dynamic(path) -> tuple[set[str], set[str], set[str]]:
    """Exported symbols, NEEDED libraries, and versions of symbols needed from others ("GLIBC_2.28")."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        exported = {
            symbol.name
            for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_LOOS")
        }
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        section = elf.get_section_by_name(".gnu.version_r")
        versions = {aux.name for _, auxiliaries in section.iter_versions() for aux in auxiliaries} if section else set()
    return exported, needed, versions


def test_core_exports_exactly_the_c_abi():
    exported, _, _ = dynamic(installed.core_library())
    ops = set(c_abi.OPS)
    library = c_abi.load()
    number = len(ops)
    while name := library.fp4aot_op_name(number):  # ops appended after ABI 1.0
        ops.add(name.decode())
        number += 1
    expected = {f"fp4aot_{name}" for name in c_abi.FUNCTIONS}
    expected |= {f"fp4aot_{op}{suffix}" for op in ops for suffix in ("", "_workspace_size")}
    assert exported == expected


@pytest.mark.parametrize("name", installed.image_names())
def test_image_exports_exactly_one_symbol(name):
    exported, _, _ = dynamic(installed.image_library(name))
    assert exported == {"fp4aot_image"}


@pytest.mark.parametrize("path", sorted(installed.package_root().rglob("*.so")), ids=lambda path: path.name)
def test_library_needs_only_the_system(path):
    _, needed, versions = dynamic(path)
    allowed = set(SYSTEM)
    if "torch" in path.name:
        allowed |= {"libtorch.so", "libtorch_cpu.so", "libc10.so", "libfp4aot.so"}
    assert needed <= allowed, f"{path.name} needs {sorted(needed - allowed)}"
    glibc = {tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions if v.startswith("GLIBC_2")}
    newest = max(glibc, default=(0,))
    if installed.is_manylinux():
        assert newest <= GLIBC, f"{path.name} needs glibc {newest}; the wheel's tag promises {GLIBC}"


def test_no_image_beside_the_table():
    assert "cpu" in installed.image_names(), "every wheel has the cpu image"
