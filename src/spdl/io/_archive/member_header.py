"""Whether a member of a tar archive lies where an index says it does: its header tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spdl.io._archive.tar_headers import BLOCK, has_checksum, member_name, read_number

if TYPE_CHECKING:
    from spdl.io._archive.tar_members import TarMember

__all__ = ["BEFORE", "has_header", "not_there"]

BEFORE = 8 * BLOCK
"""How many bytes in front of a content show what its header is, also if a pax header has its name."""

_NAME = 100
_SIZE = slice(124, 135)
_PREFIX = 345
# Names that are not ASCII are in a pax header, which lies before the header.
_PATH = re.compile(rb"(?:^|\n|\0)\d+ path=([^\n]*)\n")
_OCTAL = 1 << 33


def has_header(content: memoryview, begin: int, member: TarMember) -> bool:
    """Return whether what lies in front of a member's content is its header.

    Args:
        content: A part of the archive.
        begin: Where the content of the member begins in it.
        member: The member.
    """
    header = bytes(content[begin - BLOCK : begin]) if begin >= BLOCK else b""
    name = member.name.encode("utf-8", "surrogateescape")
    # Nearly all headers are like this, and this takes a tenth of the time of what is below.
    if (
        header[: len(name) + 1] == name + b"\0"
        and header[_SIZE] == b"%011o" % member.size
        and not header[_PREFIX]
        and len(name) < _NAME
    ):
        return True
    return _is_header(header, bytes(content[max(0, begin - BEFORE) : max(0, begin - BLOCK)]), name, member.size)


def not_there(archive: str, member: TarMember, index: str) -> str:
    """Return the message for a member of a file that is not where the index beside it says."""
    return (
        f"{archive} has no member {member.name!r} of {member.size} bytes at byte {member.offset}, where its index "
        f"{index} says it is: it was replaced or written anew since. Delete {index}, and begin again"
    )


def _is_header(header: bytes, before: bytes, name: bytes, length: int) -> bool:
    if len(header) < BLOCK:
        return False
    try:
        size = read_number(header[124:136])
        said = read_number(header[148:156])
    except ValueError:
        return False
    if not has_checksum(header, said):
        return False
    # A pax header before it has the size of what is larger, and the names that do not fit or are not ASCII.
    if size != length and length < _OCTAL:
        return False
    found = member_name(header)
    if len(name) >= _NAME or found == name:
        return True
    return not name.isascii() and _is_name_of(name, found, before)


def _is_name_of(name: bytes, short: bytes, before: bytes) -> bool:
    """Return whether a name that is not ASCII is that of a header with another one.

    Args:
        name: The name.
        short: That of the header.
        before: What lies before the header.
    """
    paths: list[bytes] = _PATH.findall(before)
    if paths:
        return paths[-1] == name
    # That header is farther away. Then the name has a mark wherever it is not ASCII.
    return short.isascii() and b"?" in short and _ascii_of(short) == _ascii_of(name)


def _ascii_of(name: bytes) -> bytes:
    return bytes(byte for byte in name if byte < 128 and byte != ord("?"))  # noqa: PLR2004 - what ASCII is.
