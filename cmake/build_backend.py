"""The PEP 517 backend: scikit-build-core, plus the build requirements that depend on the machine.

`pip install .` must work in a fresh environment with or without a CUDA toolkit, so the compiler packages are asked for
only when an image needs them and no nvcc is there. Everything else is scikit-build-core's.
"""

from __future__ import annotations

import toolchain
from scikit_build_core import build as _base
from scikit_build_core.build import (  # noqa: F401  (hooks that pip and build look up here)
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)


def _requirements() -> list[str]:
    try:
        return toolchain.requirements(toolchain.selected_images())
    except toolchain.Missing as error:
        raise SystemExit(f"fp4aot: {error}") from None


Settings = dict[str, "str | list[str]"] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return _base.get_requires_for_build_wheel(config_settings) + _requirements()


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return _base.get_requires_for_build_editable(config_settings) + _requirements()
