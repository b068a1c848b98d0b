"""What a process and its worker process say to each other, byte by byte.

The parent gives orders of one byte each. The worker answers with messages: a header, and behind it the content if that
is short. Longer content lies in the file that the two share, and the header says where. A message is written by one
call and is no longer than what the system passes on in one piece, so none is ever cut off, whoever is killed.
"""

from __future__ import annotations

from enum import IntEnum
from select import PIPE_BUF
from struct import Struct
from typing import NamedTuple

__all__ = ["HEADER", "INLINE", "Header", "Kind", "Order", "inline_limit", "step"]


class Order:
    """What the parent asks for."""

    # Begin a pass, whatever was going on.
    ITERATE = b"i"
    # End the pass that is under way.
    STOP = b"s"
    # So many items as `step` says have been taken out of the file, oldest first.
    TAKEN = b"t"
    # End the process.
    QUIT = b"q"


class Kind(IntEnum):
    """What the worker has to say."""

    READY = 0
    ITEM = 1
    END = 2
    ERROR = 3


# The kind, the number of the pass, where the content lies in the file (INLINE if it follows), how many bytes are its
# pickle, and how many buffers come behind that.
HEADER = Struct("<IIqQQ")
INLINE = -1


class Header(NamedTuple):
    """The fields of a message's header."""

    kind: int
    number: int
    offset: int
    pickled: int
    buffers: int


# What a pipe holds on Linux unless it is asked for more, and the piece in which it keeps it.
_PIPE_PAGES = 16
_PAGE = 4096


def inline_limit(buffer_size: int) -> int:
    """How many bytes of content may follow a header, so that a pipe holds as many messages as may be under way."""
    messages_per_page = -(-buffer_size // _PIPE_PAGES)
    return max(0, min(PIPE_BUF, _PAGE // messages_per_page) - HEADER.size)


def step(buffer_size: int) -> int:
    """How many items the parent takes before it says so: telling costs more than taking a small one."""
    return max(1, buffer_size // 8)
