"""Fields of messages in the encoding of Protocol Buffers."""

from __future__ import annotations

import struct

__all__ = ["fixed64", "integer", "nested", "text"]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_MORE = 0x80
_UNSIGNED = (1 << 64) - 1


def _varint(value: int) -> bytes:
    found = bytearray()
    # Seven bits at a time; the eighth says that more follow.
    while value >= _MORE:
        found.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(field: int, value: int) -> bytes:
    """Return a field that holds an integer within 64 bits, or a bool or an enumerator."""
    return _varint(field << 3 | _VARINT) + _varint(value & _UNSIGNED)


def fixed64(field: int, value: int) -> bytes:
    """Return a field that holds an unsigned integer in 8 bytes."""
    return _varint(field << 3 | _FIXED64) + struct.pack("<Q", value)


def nested(field: int, content: bytes) -> bytes:
    """Return a field that holds a message, or bytes."""
    return _varint(field << 3 | _LENGTH) + _varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """Return a field that holds a text. Half a character, as names of the user's may hold, is replaced."""
    return nested(field, content.encode("utf-8", "replace"))
