"""Environment variables with values that mean nothing are said, not silently ignored."""

import installed
import pytest
from fp4aot._environment import switch

PROGRAM = """
import numpy as np, fp4aot
codes, scales = fp4aot.quantize_nvfp4(np.ones((64, 4096), np.float32))
fp4aot.gemm_nvfp4(codes, codes, scales, scales)
print(codes[0, 0])
"""


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("FP4AOT_CPU_ISA", "sse9", "portable, avx2 or avx512"),
        ("FP4AOT_CPU_ISA", "AVX2", "portable, avx2 or avx512"),
        ("FP4AOT_NUM_THREADS", "many", "1 to 1024"),
        ("FP4AOT_NUM_THREADS", "0", "1 to 1024"),
    ],
)
def test_value_that_means_nothing(name, value, allowed):
    done = installed.python(PROGRAM, env={name: value})
    assert done.stdout.strip() == str(0x77), "1 = amax is 6 of its block: code 7, twice"
    assert f"{name}='{value}'" in done.stderr
    assert allowed in done.stderr
    assert done.stderr.count(name) == 1


def test_good_values_say_nothing():
    done = installed.python(PROGRAM, env={"FP4AOT_CPU_ISA": "portable", "FP4AOT_NUM_THREADS": "2"})
    assert done.stderr == ""


@pytest.mark.parametrize("value", ["2", "yes"])
def test_checks_that_are_neither_on_nor_off(value):
    """The library loads and tells about itself, but no op runs without a check that somebody may have asked for."""
    names = ("FP4AOT_CHECK_POINTERS", "FP4AOT_CHECK_SCALES")
    code = "import fp4aot; print(fp4aot.info()['abi'])\n" + PROGRAM
    done = installed.python(code, env=dict.fromkeys(names, value), check=False)
    assert done.stdout.startswith("1.")
    text = " ".join(f"{name} is '{value}'; it must be 1 or 0, or not set." for name in names)
    assert f"ValueError: {text}" in done.stderr


EVERY = ("CHECK_POINTERS", "CHECK_SCALES", "CPU_ISA", "FAST_PATH", "FORCE_IMAGE", "IMAGE_DIR", "NUM_THREADS")


def test_empty_is_not_set():
    """In shells it is how a variable is unset for one command. None of them is in `fp4aot info` either."""
    code = (
        PROGRAM + "import torch; print(fp4aot.quantize_nvfp4(torch.ones(1, 16))[0].tolist()[0])\n"
        "from fp4aot.cli import main; main(['info'])"
    )
    done = installed.python(code, env=dict.fromkeys((f"FP4AOT_{name}" for name in EVERY), ""))
    assert done.stdout.startswith(f"{0x77}\n{[0x77] * 8}\n")
    assert done.stderr == ""
    assert not [name for name in EVERY if f"FP4AOT_{name}" in done.stdout]


@pytest.mark.parametrize(("folder", "what"), [("absent", "does not exist"), (".", "has no readable image")])
def test_a_directory_without_images_is_said(tmp_path, folder, what):
    """Nothing else would tell that it was mistyped: the images beside the library are used."""
    folder = tmp_path / folder
    text = f"FP4AOT_IMAGE_DIR='{folder}' {what}; all images are looked for in {installed.core_library().parent}"
    code = PROGRAM + "print(fp4aot.info()['image_dir_error'])\nfrom fp4aot.cli import main; main(['info'])"
    variables = {"FP4AOT_IMAGE_DIR": str(folder), "FP4AOT_NUM_THREADS": "1"}
    lines = installed.python(code, env=variables).stdout.splitlines()
    assert lines[:2] == [str(0x77), text]
    assert lines.index(f"FP4AOT_IMAGE_DIR={folder}") + 1 == lines.index("  " + text)


def test_a_directory_with_an_image_is_not_complained_of():
    folder = str(installed.core_library().parent)
    done = installed.python(
        "import fp4aot; print([fp4aot.info()['image_dir_error']])", env={"FP4AOT_IMAGE_DIR": folder}
    )
    assert done.stdout.strip() == "['']"


TORCH = """
import torch, fp4aot
x = torch.ones(1, 16)
print(fp4aot.quantize_nvfp4(x.numpy())[0].tolist())
try:
    print(fp4aot.quantize_nvfp4(x)[0].tolist())
except fp4aot.TorchError as error:
    print(error)
"""


def test_a_fast_path_that_is_neither_on_nor_off():
    """As with a torch that cannot be used: arrays work, tensors say why not."""
    arrays, tensors = installed.python(TORCH, env={"FP4AOT_FAST_PATH": "yes"}).stdout.splitlines()
    assert arrays == str([[0x77] * 8])
    assert tensors == "FP4AOT_FAST_PATH is 'yes'; it must be 1 or 0, or not set."


def test_switches_that_are_off_or_on_say_nothing():
    names = ("FP4AOT_CHECK_SCALES", "FP4AOT_CHECK_POINTERS", "FP4AOT_FAST_PATH")
    for value in ("0", "1"):
        done = installed.python(TORCH, env=dict.fromkeys(names, value))
        assert (done.stdout, done.stderr) == (f"{[[0x77] * 8]}\n" * 2, "")


def test_a_switch(monkeypatch):
    monkeypatch.delenv("FP4AOT_FAST_PATH", raising=False)
    assert switch("FP4AOT_FAST_PATH", True)
    assert not switch("FP4AOT_FAST_PATH", False)
    for value, on in (("1", True), ("0", False)):
        monkeypatch.setenv("FP4AOT_FAST_PATH", value)
        assert [switch("FP4AOT_FAST_PATH", default) for default in (True, False)] == [on, on]
    monkeypatch.setenv("FP4AOT_FAST_PATH", "")
    assert [switch("FP4AOT_FAST_PATH", default) for default in (True, False)] == [True, False]
    for value in ("2", "yes", "true", "01", "1 "):
        monkeypatch.setenv("FP4AOT_FAST_PATH", value)
        with pytest.raises(ValueError, match=f"FP4AOT_FAST_PATH is {value!r}; it must be 1 or 0, or not set"):
            switch("FP4AOT_FAST_PATH", True)
