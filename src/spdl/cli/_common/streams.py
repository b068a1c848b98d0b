"""The standard streams, made fit for whatever will be printed."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

_STANDARD = {"stdout": 1, "stderr": 2}


def prepare_streams() -> None:
    """Open what the caller has closed, and escape what the terminal's encoding lacks instead of failing on it."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    # Otherwise the next file that is opened, here or in a child, becomes the standard output and gets what is printed.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= max(_STANDARD.values()):
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the system's own signature.
    os.close(descriptor)
    for name, number in _STANDARD.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
