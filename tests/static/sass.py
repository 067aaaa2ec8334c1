"""Machine code of an image, as cuobjdump prints it: kernels, their instructions, loops and resources."""

import functools
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import installed

_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_RESOURCE = re.compile(r"\b(REG|STACK|SHARED|LOCAL):(\d+)")


@dataclass
class Instruction:
    address: int
    text: str  # "@P0 BRA 0x123"

    @property
    def opcode(self) -> str:
        """Name with modifiers, without a predicate: "LDG.E.128"."""
        words = [word for word in self.text.split() if not word.startswith("@")]
        return words[0] if words else ""

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]


@dataclass
class Kernel:
    name: str
    code: list[Instruction] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)

    def all(self, *names: str) -> list[Instruction]:
        return [instruction for instruction in self.code if instruction.name in names]

    def loops(self) -> list[list[Instruction]]:
        """The bodies of backward branches."""
        result = []
        for instruction in self.all("BRA"):
            target = re.search(r"0x([0-9a-f]+)\s*$", instruction.text)
            if target and int(target[1], 16) < instruction.address:
                first = int(target[1], 16)
                result.append([i for i in self.code if first <= i.address <= instruction.address])
        return result

    def mainloops(self, tensor: tuple[str, ...]) -> list[list[Instruction]]:
        """The shortest loops that together hold every tensor instruction; without loops, first to last.

        Blocks that wait for a barrier are placed behind the kernel's end and jump back into it: that makes long
        "loops" around everything, which the shortest ones leave out.
        """
        left = {i.address for i in self.all(*tensor)}
        result = []
        for loop in sorted(self.loops(), key=lambda loop: loop[-1].address - loop[0].address):
            held = left & {i.address for i in loop}
            if held:
                left -= held
                result.append(loop)
        if left:
            result.append([i for i in self.code if min(left) <= i.address <= max(left)])
        return result


@functools.cache
def cuobjdump() -> str | None:
    """cuobjdump of the nvidia-cuda-cuobjdump package, else of PATH or CUDA_HOME."""
    packages = sorted((Path(sysconfig.get_path("purelib")) / "nvidia").glob("*/bin"))
    for folder in [*packages, None, Path("/usr/local/cuda/bin")]:
        if found := shutil.which("cuobjdump", path=str(folder) if folder else None):
            return found
    return None


def dump(path: Path, *options: str) -> str:
    tool = cuobjdump()
    installed.need(tool, "no cuobjdump: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
    done = subprocess.run([str(tool), *options, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@functools.cache
def kernels(path: Path) -> list[Kernel]:
    """Every kernel of an image, with its code and resources."""
    result: dict[str, Kernel] = {}
    current = None
    for line in dump(path, "-sass").splitlines():
        if "Function :" in line:
            name = line.split("Function :")[1].strip()
            current = result.setdefault(name, Kernel(name))
        elif current is not None and (found := _INSTRUCTION.match(line)):
            current.code.append(Instruction(int(found[1], 16), found[2]))
    current = None
    for line in dump(path, "-res-usage").splitlines():
        if line.strip().startswith("Function "):
            current = result[line.strip().removeprefix("Function ").rstrip(":")]
        elif current is not None and "REG:" in line:
            current.resources = {key: int(value) for key, value in _RESOURCE.findall(line)}
    return list(result.values())
