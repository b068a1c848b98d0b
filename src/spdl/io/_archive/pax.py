"""The attributes that pax headers give to the members of tar archives."""

from __future__ import annotations

import re
from typing import NamedTuple

from spdl._check import show
from spdl.io._common.format_error import FormatError

__all__ = ["Attributes", "read_pax"]

# "LENGTH KEY=VALUE\n", where the length is that of the whole record.
_LENGTH = re.compile(rb"([0-9]{1,7}) ")
_MAX_SIZE = (1 << 62) - 1


class Attributes(NamedTuple):
    """What pax headers say of a member; None where they say nothing."""

    path: bytes | None = None
    size: int | None = None
    sparse: bool = False

    def over(self, other: Attributes) -> Attributes:
        """Return these, and those of another header where there are none."""
        return Attributes(
            other.path if self.path is None else self.path,
            other.size if self.size is None else self.size,
            self.sparse or other.sparse,
        )


def read_pax(content: bytes, before: Attributes) -> Attributes:
    """Return the attributes of a header, and those that were known before where it has none.

    Raises:
        FormatError: If a record is damaged; the message continues a sentence.
    """
    path, size, sparse = before
    place = 0
    while place < len(content) and content[place]:
        match = _LENGTH.match(content, place)
        end = place + int(match[1]) if match else place
        key, equals, value = content[match.end() : end - 1].partition(b"=") if match else (b"", b"", b"")
        if match is None or not equals or end > len(content) or content[end - 1 : end] != b"\n":
            raise FormatError(f"has a damaged attribute {show(content[place : place + 40])}")
        place = end
        if key == b"path":
            path = value
        elif key == b"size":
            size = _read_size(value)
        elif key.startswith(b"GNU.sparse."):
            sparse = True
            # The path of the newer formats is only for programs that do not know them.
            if key == b"GNU.sparse.name":
                path = value
    return Attributes(path, size, sparse)


def _read_size(value: bytes) -> int:
    # Digits first: int() also takes spaces, signs and underscores, and refuses thousands of digits.
    if value.isdigit() and len(value.lstrip(b"0")) <= len(str(_MAX_SIZE)) and int(value) <= _MAX_SIZE:
        return int(value)
    raise FormatError(f"gives a size that is no whole number, or that no memory could hold: {show(value)}")
