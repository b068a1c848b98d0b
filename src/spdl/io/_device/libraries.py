"""Where NVIDIA's libraries are."""

from __future__ import annotations

import functools
import os
from importlib.util import find_spec

from spdl.io._common.native import native


@functools.cache
def search_packages() -> None:
    """Tell native code where this Python's packages, and CUDA's toolkit, have NVIDIA's libraries.

    Called before anything that needs a library which does not come with the driver. PyTorch brings NVRTC in a package
    of NVIDIA's, and torchvision brings nvJPEG inside its own.
    """
    inside = [f"{folder}.libs" for folder in _folders("torchvision")]
    native.cuda_search([*_folders("nvidia"), *inside, os.environ.get("CUDA_HOME", "/usr/local/cuda")])


def _folders(package: str) -> list[str]:
    """Return where a package is, without importing it."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # Something else of that name.
        return []
    return [] if spec is None else list(spec.submodule_search_locations or ())


__all__ = ["search_packages"]
