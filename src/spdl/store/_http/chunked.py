"""Bodies that come in chunks, each with its length before it."""

from __future__ import annotations

import re

__all__ = ["Chunked"]

_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?$")
_LONGEST_LINE = 4096
_END = b"\r\n"


class Chunked:
    """Puts chunks together as they arrive.

    Attributes:
        content: What has arrived.
        ended: Whether that is all.
        rest: Bytes that came after the end.
    """

    def __init__(self) -> None:
        self.content = bytearray()
        self.ended = False
        self.rest = b""
        self._data = b""
        self._left = 0  # In this chunk, its line's end included.
        self._trailing = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            ValueError: If these are no chunks.
        """
        self._data += data
        while not self.ended:
            if self._left:
                if not self._take_chunk():
                    return
                continue
            line, end, rest = self._data.partition(_END)
            if not end:
                if len(line) > _LONGEST_LINE:
                    raise ValueError("a line between its chunks has no end")
                return
            self._data = rest
            self._take_line(line)
        self.rest, self._data = self._data, b""

    def _take_chunk(self) -> bool:
        part = self._data[: max(0, self._left - len(_END))]
        self.content += part
        self._data = self._data[len(part) :]
        self._left -= len(part)
        if self._left > len(_END) or len(self._data) < len(_END):
            return False
        if not self._data.startswith(_END):
            raise ValueError("one of its chunks has another length than it says")
        self._data = self._data[len(_END) :]
        self._left = 0
        return True

    def _take_line(self, line: bytes) -> None:
        if self._trailing:
            self.ended = not line
            return
        size = _SIZE.match(line)
        if size is None:
            raise ValueError(f"one of its chunks has the length {line[:20]!r}")
        length = int(size[1], 16)
        self._trailing = not length
        self._left = length + len(_END) if length else 0
