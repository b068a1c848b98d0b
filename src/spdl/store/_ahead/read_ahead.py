"""Reads what will be wanted, before it is wanted."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from spdl._check import check_instance, check_int, check_iterable, positive, refuse
from spdl.store._protocol.checks import check_object_path
from spdl.store._protocol.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from typing_extensions import Buffer

__all__ = ["Part", "read_ahead"]

_WINDOWS = 4
"""Windows under way at a time: one is consumed, while the others are read."""
_MOST_PARTS = 1024


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


class _ObjectRead(NamedTuple):
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


class _Window(NamedTuple):
    """Parts that follow each other in the order in which they are wanted.

    Attributes:
        part_count: How many there are.
        bytes: How many bytes they have.
        reads: One for each object.
    """

    part_count: int
    bytes: int
    reads: list[_ObjectRead]


def read_ahead(
    store: Store, parts: Iterable[Part], *, max_bytes: int = 1 << 27, concurrency: int = 16
) -> Iterator[Buffer]:
    """Return an iterator over parts of objects, which are read before they are asked for, in a known order.

    A sampler knows the order of an epoch, so nothing has to be guessed. What is wanted soon of an object is read by one
    call of `Store.get_ranges`, which reads neighbours at once. Several objects are read at a time, by threads of this
    iterator. They end when it does, and when nobody uses it anymore; one that waits for a server ends with its request,
    for which the program may have to wait at its end, for the store's `timeout` at most.

    Args:
        store: Where the objects are.
        parts: What is wanted, in this order. It is asked for more as there is room, by the thread that iterates.
        max_bytes: How many bytes may be under way or waiting for the consumer, unless a single part has more.
        concurrency: How many objects are read at the same time.

    Raises:
        FileNotFoundError: In the place of a part whose object is missing. The iteration ends with an error.
        StoreError: In the place of a part that cannot be read, or of one shortly before it in the same object, which is
            read by the same call.
        TypeError: If an argument is none of these, or a part has no path, start and length.
        ValueError: If a number is too small.

    Example:
        >>> import os, tempfile
        >>> from spdl.store import LocalStore, Part
        >>> folder = tempfile.TemporaryDirectory()
        >>> with open(os.path.join(folder.name, "letters"), "wb") as file:
        ...     _ = file.write(b"abcdefgh")
        >>> order = [7, 0, 4]
        >>> parts = (Part("letters", index, 1) for index in order)
        >>> [bytes(part) for part in read_ahead(LocalStore(folder.name), parts)]
        [b'h', b'a', b'e']
        >>> folder.cleanup()
    """
    check_instance("store", store, Store, "a store: an object with the methods size, list, get and get_ranges")
    check_iterable("parts", parts, "an iterable of parts")
    positive("max_bytes", max_bytes)
    positive("concurrency", concurrency)
    windows = _plan_windows(parts, most_bytes=max(1, max_bytes // _WINDOWS), most_parts=_MOST_PARTS)
    return _read(store, windows, max_bytes, concurrency)


def _read(store: Store, windows: Iterator[_Window], max_bytes: int, concurrency: int) -> Iterator[Buffer]:
    executor = ThreadPoolExecutor(concurrency, thread_name_prefix="spdl-ahead")
    ahead: deque[tuple[_Window, list[tuple[_ObjectRead, Future[list[Buffer]]]]]] = deque()
    under_way = 0
    # The next one waits here until there is room for it.
    following = next(windows, None)
    try:
        while following is not None or ahead:
            while following is not None and (
                not ahead or (len(ahead) < _WINDOWS and under_way + following.bytes <= max_bytes)
            ):
                ahead.append((following, [(read, executor.submit(_get, store, read)) for read in following.reads]))
                under_way += following.bytes
                following = next(windows, None)
            window, reads = ahead.popleft()
            yield from _in_order(window, reads)
            under_way -= window.bytes
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _get(store: Store, read: _ObjectRead) -> list[Buffer]:
    return store.get_ranges(read.path, read.starts, read.lengths)


def _in_order(window: _Window, reads: list[tuple[_ObjectRead, Future[list[Buffer]]]]) -> Iterator[Buffer]:
    owners: list[tuple[Future[list[Buffer]], int]] = [(reads[0][1], 0)] * window.part_count
    for read, future in reads:
        for index, place in enumerate(read.places):
            owners[place] = future, index
    for future, index in owners:
        yield future.result()[index]


def _plan_windows(parts: Iterable[Part], *, most_bytes: int, most_parts: int) -> Iterator[_Window]:
    """Yield windows, in the order of the parts, each as large as it may be. Nothing is read here.

    Parts are taken from the iterable as they are needed, so it may be endless.

    Args:
        parts: What is wanted, in this order.
        most_bytes: How many bytes a window has at most, unless it has one part only.
        most_parts: How many parts a window has at most.
    """
    reads: dict[str, _ObjectRead] = {}
    count = total = 0
    for path, start, length in map(_checked, parts):
        if count and (total + length > most_bytes or count >= most_parts):
            yield _Window(count, total, list(reads.values()))
            reads, count, total = {}, 0, 0
        read = reads.get(path)
        if read is None:
            read = reads[path] = _ObjectRead(path, [], [], [])
        read.places.append(count)
        read.starts.append(start)
        read.lengths.append(length)
        count += 1
        total += length
    if count:
        yield _Window(count, total, list(reads.values()))


def _checked(part: Part) -> Part:
    try:
        path, start, length = part
    except (TypeError, ValueError):
        refuse(TypeError, "parts", "an iterable of parts, such as Part('0.tar', 512, 1000)", part)
    return Part(check_object_path(path), check_int("start", start, least=0), check_int("length", length, least=0))
