"""Errors for addresses such as ``https://host/name`` that are given as paths to write to."""

from __future__ import annotations

import errno
import os
import re

__all__ = ["not_to_write"]

_PROTOCOL = re.compile(r"([A-Za-z0-9+-]+)://")


def not_to_write(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return the error for a path that could not be written: the given one, or for an address one with a remedy."""
    name = os.fsdecode(path)
    protocol = _PROTOCOL.match(name)
    if error.errno != errno.ENOENT or protocol is None:
        return error
    said = f'the protocol "{protocol[1]}" is not in this build, which writes files'
    return FileNotFoundError(errno.ENOENT, f"{said}. Write one, and send it, for instance with fsspec", name)
