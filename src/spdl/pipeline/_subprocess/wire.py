"""The protocol between a process and its worker process, byte by byte.

The parent gives orders of one byte each. The worker answers with messages: a header, followed by the content if that
is short. Longer content is in the file that both share, and the header says where. Each message is written by one call
and is short enough for the system to pass it on in one piece, so none is ever cut off, even if a process is killed.
"""

from __future__ import annotations

from enum import IntEnum
from select import PIPE_BUF
from struct import Struct
from typing import NamedTuple

__all__ = ["HEADER", "INLINE", "UNBOUNDED", "Header", "Kind", "Order", "inline_limit", "items_per_report"]


class Order:
    """The orders that the parent gives."""

    # Begin a pass, whatever is under way.
    ITERATE = b"i"
    # End the pass that is under way.
    STOP = b"s"
    # The oldest items, as many as `items_per_report` says, have been taken out of the file.
    TAKEN = b"t"
    # End the process.
    QUIT = b"q"


class Kind(IntEnum):
    """The kinds of the worker's messages."""

    READY = 0
    ITEM = 1
    END = 2
    ERROR = 3


# The kind, the number of the pass, the offset of the content in the file (INLINE if it follows the header), the length
# of the pickle in bytes, and how many buffers follow the pickle.
HEADER = Struct("<IIqQQ")
INLINE = -1


class Header(NamedTuple):
    """The fields of a message's header."""

    kind: int
    number: int
    offset: int
    pickled: int
    buffers: int


# How many pages a pipe holds on Linux by default, and the bytes of a page.
_PIPE_PAGES = 16
_PAGE = 4096

# The buffer size that stands for no bound: as many headers as the largest pipe holds that needs no privileges.
UNBOUNDED = (1 << 20) // HEADER.size

# More items per report would keep the memory of that many items in use after the parent has taken them.
_MOST_PER_REPORT = 256


def inline_limit(buffer_size: int) -> int:
    """Return how many bytes of content may follow a header, so that a pipe holds all messages that may be under way."""
    messages_per_page = -(-buffer_size // _PIPE_PAGES)
    return max(0, min(PIPE_BUF, _PAGE // messages_per_page) - HEADER.size)


def items_per_report(buffer_size: int) -> int:
    """Return how many items the parent takes between its reports, each of which costs more than taking a small item."""
    return max(1, min(buffer_size // 8, _MOST_PER_REPORT))
