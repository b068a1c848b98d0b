"""Lists of images, as MDS and LitData write them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.io import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["decode_list"]

_WORD = 4


def decode_list(content: memoryview, *, decode: Callable[[memoryview], Any], skip: int = 0) -> list[Any]:
    """Return the items of a list: their number, the size of each, as uint32, and their bytes.

    Args:
        content: The list.
        decode: Makes an item of its bytes.
        skip: How many zeros come first.
    """
    if any(content[:skip]):
        raise FormatError(f"a list begins with {bytes(content[:skip])!r}, which is not known")
    (count,) = struct.unpack_from("<I", content, skip)
    place = skip + _WORD * (1 + count)
    sizes = np.frombuffer(content[skip + _WORD : place], "<u4", count).tolist()
    if place + sum(sizes) != len(content):
        raise FormatError(f"a list of {count} has another size than its items")
    items = []
    for size in sizes:
        items.append(decode(content[place : place + size]))
        place += size
    return items
