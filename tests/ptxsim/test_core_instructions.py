"""The scalar instructions one by one, by the hand-computed cases of core_cases.py."""

import re

import numpy as np
import pytest

from . import core_cases
from .core_device import Device

pytestmark = pytest.mark.ptxsim

REGISTER = {"h": "%h", "r": "%r", "d": "%rd", "p": "%p"}
STORAGE = {"h": "u16", "r": "u32", "d": "u64", "p": "u32"}


def kernel(number: int, text: str, kinds: str) -> str:
    """Loads the sources of each lane (8 bytes each, one array a source), runs the instruction, stores the result."""
    names, lines = {}, []
    for position, (letter, kind) in enumerate(zip("DABCE", kinds, strict=False)):
        names[letter] = f"{REGISTER[kind]}{position + 10}"
        if position == 0:
            continue
        source = f"[%rd1+{position * 256}]"
        if kind == "p":
            lines += [f"ld.global.u32 %r9, {source};", f"setp.ne.u32 {names[letter]}, %r9, 0;"]
        else:
            lines += [f"ld.global.{STORAGE[kind]} {names[letter]}, {source};"]
    lines.append(re.sub(r"\b[DABCE]\b", lambda m: names[m[0]], text) + ";")
    if kinds[0] == "p":
        lines += [f"selp.u32 %r8, 1, 0, {names['D']};", "st.global.u32 [%rd1], %r8;"]
    else:
        lines.append(f"st.global.{STORAGE[kinds[0]]} [%rd1], {names['D']};")
    return (
        f".visible .entry k{number}(.param .u64 data)\n{{\n"
        ".reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<20>;\n"
        "ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd1, %rd1, %rd2;\n"
        + "\n".join(lines)
        + "\nret;\n}\n"
    )


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    path = tmp_path_factory.mktemp("core") / "cases.ptx"
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n"
    path.write_text(head + "".join(kernel(n, text, kinds) for n, (text, kinds, _) in enumerate(core_cases.ALL)))
    made = Device()
    made.load(path)
    return made


@pytest.mark.parametrize("block", [32, 13], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("number", range(len(core_cases.ALL)), ids=lambda n: core_cases.ALL[n][0].split(" D")[0])
def test_instruction(cases, number, block):
    text, kinds, rows = core_cases.ALL[number]
    by_lane = "%lane" in text
    block = 32 if "%" in text else block
    values = np.zeros((len(kinds), 32), np.uint64)
    # Lanes beyond the cases repeat them, so that whole warps take part.
    for lane in range(32):
        row = rows[lane % len(rows)]
        values[1:, lane] = row[:-1]
    if (
        "%laneid" in core_cases.ALL[number][0]
        or "%lanemask" in core_cases.ALL[number][0]
        or "%ntid" in core_cases.ALL[number][0]
    ):
        block = 32
    data = cases.upload(values)
    assert cases.run(f"k{number}", data, block=block) == []
    got = cases.download(data, np.uint64, 32)
    bits = {"h": 16, "r": 32, "d": 64, "p": 32}[kinds[0]]
    for lane in range(len(rows) if by_lane else block):
        expected = rows[lane % len(rows)][-1]
        value = int(got[lane]) & ((1 << bits) - 1)
        assert value == expected, f"lane {lane}: 0x{value:x}, not 0x{expected:x}"
    assert (got[block:] == 0).all()


def test_undefined_sources_make_undefined_results(tmp_path):
    """Each instruction's result depends on the register that was never written."""
    cases = [
        (n, *case) for n, case in enumerate(core_cases.ALL) if len(case[1]) > 1 and "A" in case[0].split("D", 1)[-1]
    ]
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n"
    body = ""
    for n, text, kinds, _ in cases:
        if "{" in text or "selp" in text:
            continue
        lines = kernel(n, text, kinds).splitlines()
        # Without the load of the first source.
        first = next(i for i, line in enumerate(lines) if line.startswith("ld.global"))
        del lines[first]
        if lines[first].startswith("setp.ne.u32"):
            del lines[first]
        body += "\n".join(lines) + "\n"
    path = tmp_path / "undefined.ptx"
    path.write_text(head + body)
    device = Device()
    device.load(path)
    for n, text, _, _ in cases:
        if "{" in text or "selp" in text:
            continue
        found = device.run(f"k{n}", device.upload(np.ones(32 * 8, np.uint64)))
        assert {f.check for f in found} == {"uninitialised"}, text
