"""cmake/toolchain.py: where a build finds nvcc, CUTLASS and torch, and what it says when it does not."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "cmake" / "toolchain.py"


@pytest.fixture
def toolchain(monkeypatch, tmp_path):
    """A fresh copy of the module on a machine that has nothing."""
    spec = importlib.util.spec_from_file_location("toolchain", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "FP4AOT_IMAGES", "FP4AOT_TORCH"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith("FP4AOT_CUTLASS")]:
        monkeypatch.delenv(name)
    tools = tmp_path / "path"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "/usr/bin/git")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "package_directory", lambda name: None)
    return module


def fake_nvcc(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.1'\n")
    path.chmod(0o755)
    return path


def fake_cutlass(include: Path, version: str) -> Path:
    (include / "cutlass").mkdir(parents=True)
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    (include / "cutlass" / "version.h").write_text("".join(f"#define CUTLASS_{part} {n}\n" for part, n in parts))
    return include


def test_nvcc_in_order(toolchain, monkeypatch, tmp_path):
    packages = tmp_path / "nvidia"
    monkeypatch.setattr(toolchain, "package_directory", lambda name: packages if name == "nvidia" else None)
    expected = fake_nvcc(packages / "cu13" / "bin" / "nvcc", "13.0")
    assert toolchain.find_nvcc() == expected
    expected = fake_nvcc(tmp_path / "path" / "nvcc", "12.9")
    assert toolchain.find_nvcc() == expected
    expected = fake_nvcc(tmp_path / "home" / "bin" / "nvcc", "13.1")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert toolchain.find_nvcc() == expected
    expected = fake_nvcc(tmp_path / "own", "13.2")
    monkeypatch.setenv("CUDACXX", str(expected))
    assert toolchain.find_nvcc() == expected


def test_an_old_nvcc_is_passed_over_and_named(toolchain, monkeypatch, tmp_path):
    old = fake_nvcc(tmp_path / "path" / "nvcc", "12.4")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(broken))
    with pytest.raises(toolchain.Missing) as error:
        toolchain.find_nvcc()
    for part in ("12.9 or newer", f"{old} (12.4)", f"{broken} (cannot be run)", "pip install nvidia-cuda-nvcc=="):
        assert part in str(error.value)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    newer = fake_nvcc(tmp_path / "home" / "bin" / "nvcc", "12.9")
    assert toolchain.find_nvcc() == newer
    with pytest.raises(toolchain.Missing, match=r"13\.0 or newer"):
        toolchain.find_nvcc((13, 0))


def test_cutlass_in_order(toolchain, monkeypatch, tmp_path):
    packages = {"cutlass_library": tmp_path / "cutlass_library", "deep_gemm": tmp_path / "deep_gemm"}
    monkeypatch.setattr(toolchain, "package_directory", packages.get)
    old = fake_cutlass(packages["cutlass_library"] / "source" / "include", "4.2.0")
    with pytest.raises(toolchain.Missing) as error:
        toolchain.find_cutlass()
    assert f"{old} has 4.2.0" in str(error.value)
    assert f"pip install --no-deps {toolchain.CUTLASS}" in str(error.value)
    newer = fake_cutlass(packages["deep_gemm"] / "include", "4.8.1")
    assert toolchain.find_cutlass() == newer
    shutil.rmtree(old)
    assert toolchain.find_cutlass() == newer
    fake_cutlass(old, "4.7.0")
    assert toolchain.find_cutlass() == old
    checkout = fake_cutlass(tmp_path / "checkout" / "include", "4.9.0")
    for given in (checkout, checkout.parent):
        monkeypatch.setenv("FP4AOT_CUTLASS_DIR", str(given))
        assert toolchain.find_cutlass() == checkout
    monkeypatch.setenv("FP4AOT_CUTLASS_DIR", str(tmp_path))  # what was asked for is not replaced by something else
    with pytest.raises(toolchain.Missing, match=f"FP4AOT_CUTLASS_DIR={tmp_path}"):
        toolchain.find_cutlass()


def test_cutlass_from_git(toolchain, monkeypatch, tmp_path):
    mirror = tmp_path / "mirror"
    fake_cutlass(mirror / "include", "4.8.1")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "a"], ["tag", toolchain.CUTLASS_TAG]):
        subprocess.run(["git", *command], cwd=mirror, check=True)
    monkeypatch.setenv("FP4AOT_CUTLASS_GIT", str(tmp_path / "nowhere"))
    with pytest.raises(toolchain.Missing, match=f"{toolchain.CUTLASS_TAG} of .*nowhere could not be cloned"):
        toolchain.find_cutlass()
    monkeypatch.setenv("FP4AOT_CUTLASS_GIT", f"file://{mirror}")
    found = toolchain.find_cutlass()
    assert toolchain.cutlass_version(found) == (4, 8, 1)
    shutil.rmtree(mirror)
    assert toolchain.find_cutlass() == found, "cloned once"
    monkeypatch.setenv("FP4AOT_CUTLASS_GIT", "0")
    with pytest.raises(toolchain.Missing):
        toolchain.find_cutlass()


def test_requirements_name_only_what_is_missing(toolchain, monkeypatch, tmp_path):
    assert toolchain.requirements(["cpu"]) == [toolchain.TORCH]
    monkeypatch.setenv("FP4AOT_TORCH", "OFF")
    assert toolchain.requirements(["cpu"]) == []
    assert toolchain.requirements(["cpu", "sm90a"]) == toolchain.TOOLKIT
    fake_nvcc(tmp_path / "path" / "nvcc", "13.0")
    assert toolchain.requirements(["cpu", "sm90a"]) == []
    blackwell = [line[0] for line in toolchain.image_table() if line[5:6] == ["cutlass"]]
    if blackwell:
        assert toolchain.requirements(["cpu", blackwell[0]]) == [toolchain.CUTLASS]


def test_images(toolchain, monkeypatch):
    names = [line[0] for line in toolchain.image_table()]
    assert toolchain.selected_images("all") == names
    assert toolchain.selected_images("sm90a") == ["cpu", "sm90a"]
    assert toolchain.selected_images("sm90a, cpu") == ["cpu", "sm90a"]
    assert toolchain.selected_images() == ["cpu"], "no GPU is visible without nvidia-smi"
    monkeypatch.setattr(toolchain, "visible_capabilities", lambda: {"9.0", "8.9"})
    assert toolchain.selected_images() == ["cpu", "sm90a"]
    with pytest.raises(toolchain.Missing, match=r"names 'sm75'.*Known: cpu, sm90a"):
        toolchain.selected_images("cpu,sm75")


def test_the_torch_binding_is_wanted_or_not(toolchain, monkeypatch):
    assert toolchain.wants_torch()
    for value, wanted in (("ON", True), ("1", True), ("off", False), ("0", False)):
        monkeypatch.setenv("FP4AOT_TORCH", value)
        assert toolchain.wants_torch() is wanted, value
    for value in ("", "2", "yes"):
        monkeypatch.setenv("FP4AOT_TORCH", value)
        with pytest.raises(toolchain.Missing, match=f"FP4AOT_TORCH is '{value}'; it must be ON or OFF"):
            toolchain.requirements(["cpu"])


def test_the_command_prints_an_error_and_fails():
    environment = {"PATH": "", "FP4AOT_IMAGES": "sm75"}
    done = subprocess.run([sys.executable, SOURCE, "requirements"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "sm75" in done.stderr
