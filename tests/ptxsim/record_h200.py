"""Records h200.npz: runs record.problems() with the installed wheel on the H200 that CUDA calls device 0.

    python -m tests.ptxsim.record_h200 [FILE]        from the root of the repository; default tests/ptxsim/h200.npz

Needs the wheel, numpy, and a libcudart (of torch's packages or the toolkit). Every output is checked against
tests/reference before it is kept.
"""

import ctypes.util
import datetime
import importlib.util
import json
import platform
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "abi")]

import installed  # noqa: E402  (found through the line above, as pytest finds it)

from ptxsim import problems, record  # noqa: E402
from ptxsim.session import Session  # noqa: E402


def cuda_runtime() -> str:
    """libcudart of the nvidia-* packages, else of the system."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(root).glob("*/lib/libcudart.so.*"), reverse=True):
            return str(path)
    for place in ("/usr/local/cuda/lib64/libcudart.so", ctypes.util.find_library("cudart")):
        if place and (not place.startswith("/") or Path(place).exists()):
            return place
    raise SystemExit("no libcudart: pip install nvidia-cuda-runtime")


def query(what: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader", "--id=0"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else record.FILE
    session = Session(cuda_runtime(), str(installed.core_library()))
    if session.image != record.IMAGE:
        raise SystemExit(f"device 0 is served by image {session.image}; the record is of {record.IMAGE}")
    outputs = []
    for problem in record.problems():
        found = problem.run(session)
        problem.check(found)
        session.release()
        outputs.append(found)
        print(f"{problems.written_out(problem)}: {sum(array.nbytes for array in found.values())} bytes")
    about = {
        "device": query("name"),
        "driver": query("driver_version"),
        "fp4aot": session.core.fp4aot_version().decode(),
        "toolkit": toolkit(session),
        "recorded": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "command": "python -m tests.ptxsim.record_h200",
    }
    record.store(target, about, outputs)
    record.load(target)
    print(f"{target}: {target.stat().st_size} bytes, {about}")
    return 0


def toolkit(session: Session) -> str:
    """CUDA version that the image was built with, from core's own report."""
    images = json.loads(session.core.fp4aot_info_json())["images"]
    return str(next((image for image in images if image.get("name") == record.IMAGE), {}).get("cuda_toolkit"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
