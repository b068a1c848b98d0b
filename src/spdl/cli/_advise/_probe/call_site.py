"""Find the line that makes a loader."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["call_site"]

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not imported otherwise.


def call_site(made: object) -> tuple[str, int, bool]:
    """Return the file and line that make an object, called from within its initialiser.

    Initialisers of subclasses are passed over, and so are libraries if anything outside them takes part.

    Returns:
        The file, the line, and whether a library makes it on behalf of that line.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to walk up without reading the sources.
    maker: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(_HERE)
        is_initialiser = code.co_name == "__init__" and code.co_argcount and _first_argument(frame) is made
        if not is_ours and not is_initialiser:
            maker = maker or frame
            if not _is_library(code.co_filename):
                return code.co_filename, frame.f_lineno, frame is not maker
        frame = frame.f_back
    return (maker.f_code.co_filename, maker.f_lineno, True) if maker is not None else ("<unknown>", 0, True)


def _first_argument(frame: FrameType) -> object:
    return frame.f_locals.get(frame.f_code.co_varnames[0])


def _is_library(file: str) -> bool:
    return (
        "site-packages" in file or "dist-packages" in file or file.startswith(("<", sys.base_prefix + os.sep + "lib"))
    )
