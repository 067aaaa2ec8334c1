"""Runs nvcc for one unit: through ccache when it is there, keeping the unit's PTX beside its object.

    nvcc_launcher.py <source root> nvcc ... -c unit.cu -o unit.cu.o

The wheel holds machine code only, but the tests read the PTX that this very compilation went through (unit.cu.o.ptx).
ccache restores objects, not side files, so the PTX is kept in a cache of its own under the object's hash.

When ptxas makes wgmma's products wait for each other, which costs a kernel most of its speed, it says so as
information, not as a warning. Here it is an error. ccache repeats what ptxas printed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

CACHE_LIMIT = 400  # PTX files kept


def cached_ptx(object_file: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fp4aot" / "ptx"
    return cache / f"{hashlib.sha256(object_file.read_bytes()).hexdigest()}.ptx.gz"


def store(ptx: Path, entry: Path) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    partial = entry.with_suffix(f".{os.getpid()}")
    partial.write_bytes(gzip.compress(ptx.read_bytes(), 6))
    partial.replace(entry)
    for old in sorted(entry.parent.glob("*.gz"), key=lambda file: file.stat().st_mtime)[:-CACHE_LIMIT]:
        old.unlink(missing_ok=True)


def relative_to(root: str, argument: str) -> str:
    return "." if argument == root else argument.replace(f"{root}/", "")


def absolute_dependencies(file: Path, root: str) -> None:
    """The compiler ran in the root; ninja reads paths as seen from the build folder."""
    if not file.exists():
        return
    target, _, paths = file.read_text().partition(":")
    words = [word if word.startswith(("/", "\\")) else f"{root}/{word}" for word in paths.split()]
    file.write_text(f"{target}: {' '.join(word for word in words if word != chr(92))}\n")


def is_serialised(messages: str) -> bool:
    """Whether ptxas said so, e.g. "(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized"."""
    return any("wgmma" in line and "serialized" in line for line in messages.splitlines())


def main(arguments: list[str]) -> int:
    root, command = arguments[0], arguments[1:]
    if "-c" not in command or "-o" not in command:  # dependency scans, compiler checks
        return subprocess.run(command).returncode
    output = Path(command[command.index("-o") + 1]).absolute()
    unit = Path(command[command.index("-c") + 1]).name
    keep = Path(f"{output}.keep")
    ptx = Path(f"{output}.ptx")
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    # Machine code carries the names of its sources: from the root they are the same in every checkout, so that images
    # are too, and ccache knows a unit again.
    for option in ("-o", "-MF"):
        if option in command:
            place = command.index(option) + 1
            command[place] = str(Path(command[place]).absolute())
    dependencies = Path(command[command.index("-MF") + 1]) if "-MF" in command else None
    command = [relative_to(root, argument) for argument in [*command, "--keep", "--keep-dir", str(keep)]]
    environment = dict(os.environ)
    ccache = shutil.which("ccache")
    if ccache:
        environment.update(CCACHE_BASEDIR=root, CCACHE_NOHASHDIR="1")
        command = [ccache, *command]

    def compile_unit() -> int:
        done = subprocess.run(command, env=environment, cwd=root, stderr=subprocess.PIPE, text=True, errors="replace")
        sys.stderr.write(done.stderr)
        if done.returncode == 0 and is_serialised(done.stderr):
            print(f"fp4aot: {unit}: error: products of wgmma are serialised, see above", file=sys.stderr)
            output.unlink(missing_ok=True)
            return 1
        return done.returncode

    start = time.monotonic()
    code = compile_unit()
    if code == 0 and ccache and not list(keep.glob("*.ptx")):
        entry = cached_ptx(output)
        if entry.exists():
            ptx.write_bytes(gzip.decompress(entry.read_bytes()))
        else:
            environment["CCACHE_RECACHE"] = "1"
            code = compile_unit()
    if code == 0 and dependencies:
        absolute_dependencies(dependencies, root)
    kept = list(keep.glob("*.ptx"))
    if code == 0 and kept:
        shutil.copyfile(kept[0], ptx)
        if ccache:
            store(ptx, cached_ptx(output))
    shutil.rmtree(keep, ignore_errors=True)
    print(f"fp4aot: {unit} took {time.monotonic() - start:.1f} s{'' if kept or code else ' (cached)'}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
