"""What tells a plain list of samples from another one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Number
from typing import TYPE_CHECKING, Any
from zlib import crc32

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._labelled.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fingerprint_of"]

# So many parts of a sample, and bytes of a file, are looked at.
_PARTS = 16
_BYTES = 4096


def fingerprint_of(source: Sequence[Any]) -> str:
    """Return a short text of a list or tuple, the same for the same paths, numbers and bytes in the same order.

    It looks at 1,024 samples, spread evenly. Of objects that are none of these, only the type counts.
    """
    return fingerprint(type(source).__name__, len(source), lambda index: _describe(source[index]))


def _describe(item: Any) -> str:
    if isinstance(item, str | os.PathLike):
        return repr(os.fspath(item))
    if item is None or isinstance(item, Number):
        return str(item)
    if isinstance(item, bytes | bytearray):
        return f"{len(item)} bytes {crc32(item[:_BYTES]):08x} {crc32(item[-_BYTES:]):08x}"
    if isinstance(item, tuple | list) and len(item) <= _PARTS:
        return f"({', '.join(map(_describe, item))})"
    if isinstance(item, Mapping) and len(item) <= _PARTS:
        return f"{{{', '.join(f'{_describe(name)}: {_describe(value)}' for name, value in item.items())}}}"
    return type(item).__name__
