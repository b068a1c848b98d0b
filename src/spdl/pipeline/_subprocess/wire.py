"""The protocol between a process and its worker process.

The parent gives orders of one byte each, by a pipe. The worker answers with messages in a lane.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["UNBOUNDED", "Kind", "Order", "items_per_report", "kind_of", "number_of", "ring_size"]


class Order:
    """The orders that the parent gives."""

    # Begin a pass, whatever is under way.
    ITERATE = b"i"
    # End the pass that is under way.
    STOP = b"s"
    # Items were received, as many as `items_per_report` says.
    TAKEN = b"t"
    # End the process.
    QUIT = b"q"


class Kind(IntEnum):
    """The kinds of the worker's messages."""

    READY = 0
    ITEM = 1
    END = 2
    ERROR = 3


# A message's number is that of its pass, with its kind in the lowest bits.
_KIND_BITS = 2
_NUMBERS = 1 << 31


def number_of(number: int, kind: int) -> int:
    """Return the number of a message of a kind, for a pass."""
    return (number << _KIND_BITS | kind) % _NUMBERS


def kind_of(number: int) -> int:
    """Return the kind of the message with that number."""
    return number & (1 << _KIND_BITS) - 1


# The buffer size that stands for no bound.
UNBOUNDED = 1 << 15

# Bytes in the ring of a small item, generously, and of the smallest ring, for large items.
_SMALL = 128
_LEAST_RING = 1 << 18

# More items per report would let the worker wait while the parent is busy with items that it has.
_MOST_PER_REPORT = 256


def ring_size(buffer_size: int) -> int:
    """Return the bytes of a ring that holds so many small items."""
    return max(_LEAST_RING, 1 << (buffer_size * _SMALL - 1).bit_length())


def items_per_report(buffer_size: int) -> int:
    """Return how many items the parent takes between its reports, each of which costs more than taking a small item."""
    return max(1, min(buffer_size // 8, _MOST_PER_REPORT))
