"""Errors for addresses such as ``https://host/name`` that are given as paths."""

from __future__ import annotations

import errno
import os
import re

__all__ = ["not_to_read", "not_to_write"]

_PROTOCOL = re.compile(r"([A-Za-z0-9+-]+)://")


def not_to_read(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return the error for a path that could not be read: the given one, or for an address one with a remedy."""
    remedy = "Fetch it, for instance with fsspec, and pass the file or its bytes"
    return _explained(error, path, f"reads files and bytes. {remedy}")


def not_to_write(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return the error for a path that could not be written: the given one, or for an address one with a remedy."""
    return _explained(error, path, "writes files. Write one, and send it, for instance with fsspec")


def _explained(error: OSError, path: str | os.PathLike[str], what_it_does: str) -> OSError:
    name = os.fsdecode(path)
    protocol = _PROTOCOL.match(name)
    if error.errno != errno.ENOENT or protocol is None:
        return error
    return FileNotFoundError(
        errno.ENOENT, f'the protocol "{protocol[1]}" is not in this build, which {what_it_does}', name
    )
