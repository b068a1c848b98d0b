"""The line of the user's code that called us, for messages about mistakes in it."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["callers_line", "warn_caller"]


def callers_line() -> str:
    """Return the file and line of the nearest caller outside this package, as ``file:line``.

    It is empty in a thread of ours, which no line of the user's has called.
    """
    frame = _callers_frame()
    if frame.f_globals.get("__name__") == "threading":
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn_caller(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning at the line of the nearest caller outside this package, however deep the call is."""
    frame = _callers_frame()
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=str(frame.f_globals.get("__name__")),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _callers_frame() -> FrameType:
    frame = sys._getframe(2)  # noqa: SLF001 - `inspect` would cost 20 ms of import time for the same frame.
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("spdl."):
        frame = frame.f_back
    return frame
