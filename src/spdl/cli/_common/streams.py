"""Prepare the standard streams for any text that will be printed."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

_STANDARD = {"stdout": 1, "stderr": 2}


def prepare_streams() -> None:
    """Open the streams that the caller has closed. Escape characters that the terminal's encoding lacks."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    # Otherwise the next file that is opened, here or in a child, becomes the standard output and receives the text.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= max(_STANDARD.values()):
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the signature is the system's.
    os.close(descriptor)
    for name, number in _STANDARD.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
