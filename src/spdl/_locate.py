"""The line of user code that called us, for messages about mistakes in it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

P = ParamSpec("P")
Result = TypeVar("Result")

# The first frames of a thread, which no user code has called.
_OF_THREADS = ("threading", "concurrent.futures.thread")

# The line that the work of such a thread is for.
_line_behind: ContextVar[str] = ContextVar("line_behind", default="")


def callers_line() -> str:
    """Return the file and line of the nearest caller outside this package, as ``file:line``.

    In a thread that no user code has called, it is the line that `for_caller` has noted, or else empty.
    """
    frame = _callers_frame()
    if frame.f_globals.get("__name__") in _OF_THREADS:
        return _line_behind.get()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def for_caller(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that does the same in another thread, and whose messages name the line that calls us now."""
    line = callers_line()

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        token = _line_behind.set(line)
        try:
            return function(*args, **kwargs)
        finally:
            _line_behind.reset(token)

    return call


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
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(("spdl.", "contextlib")):
        frame = frame.f_back
    return frame
