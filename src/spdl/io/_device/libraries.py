"""Where NVIDIA's libraries are."""

from __future__ import annotations

import functools
import os
from importlib.util import find_spec

from spdl.io._common.native import native


@functools.cache
def search_packages() -> None:
    """Tell native code where this Python's nvidia-* packages, and CUDA's toolkit, have their libraries.

    Called before anything that needs a library which does not come with the driver.
    """
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):  # Something else of that name.
        spec = None
    packages = [] if spec is None else list(spec.submodule_search_locations or ())
    native.cuda_search([*packages, os.environ.get("CUDA_HOME", "/usr/local/cuda")])


__all__ = ["search_packages"]
