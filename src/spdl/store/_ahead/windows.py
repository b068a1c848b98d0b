"""Which parts are read together, where the order in which they are wanted is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spdl._check import check_int, refuse
from spdl.store._protocol.checks import check_object_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ObjectRead", "Part", "Window", "plan_windows"]


class Part(NamedTuple):
    """Bytes of an object that somebody will want.

    Example:
        >>> Part("train/0.tar", 512, 100_000).length
        100000
    """

    path: str
    """The object."""
    start: int
    """Where the bytes begin."""
    length: int
    """How many there are."""


class ObjectRead(NamedTuple):
    """What is read of one object by one call of `get_ranges`.

    Attributes:
        path: The object.
        places: Where its parts stand in their window.
        starts: Where they begin in the object.
        lengths: How many bytes they have.
    """

    path: str
    places: list[int]
    starts: list[int]
    lengths: list[int]


class Window(NamedTuple):
    """Parts that follow each other in the order in which they are wanted.

    Attributes:
        part_count: How many there are.
        bytes: How many bytes they have.
        reads: One for each object.
    """

    part_count: int
    bytes: int
    reads: list[ObjectRead]


def plan_windows(parts: Iterable[Part], *, most_bytes: int, most_parts: int) -> Iterator[Window]:
    """Yield windows, in the order of the parts, each as large as it may be. Nothing is read here.

    Parts are taken from the iterable as they are needed, so it may be endless.

    Args:
        parts: What is wanted, in this order.
        most_bytes: How many bytes a window has at most, unless it has one part only.
        most_parts: How many parts a window has at most.

    Raises:
        TypeError: If a part has no path, or its numbers are no ints.
        ValueError: If one of its numbers is negative, or the path is none below a store.
    """
    reads: dict[str, ObjectRead] = {}
    count = total = 0
    for path, start, length in map(_checked, parts):
        if count and (total + length > most_bytes or count >= most_parts):
            yield Window(count, total, list(reads.values()))
            reads, count, total = {}, 0, 0
        read = reads.get(path)
        if read is None:
            read = reads[path] = ObjectRead(path, [], [], [])
        read.places.append(count)
        read.starts.append(start)
        read.lengths.append(length)
        count += 1
        total += length
    if count:
        yield Window(count, total, list(reads.values()))


def _checked(part: Part) -> Part:
    try:
        path, start, length = part
    except (TypeError, ValueError):
        refuse(TypeError, "parts", "an iterable of parts, such as Part('0.tar', 512, 1000)", part)
    return Part(check_object_path(path), check_int("start", start, least=0), check_int("length", length, least=0))
