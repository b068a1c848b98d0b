"""The line of the user's code that called us, for messages about mistakes in it."""

from __future__ import annotations

import sys

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["callers_line"]


def callers_line() -> str:
    """Return the file and line of the nearest caller outside this package, as ``file:line``."""
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect` would cost 20 ms of import time for the same frame.
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("spdl."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
