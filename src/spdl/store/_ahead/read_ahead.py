"""Reads what will be wanted, before it is wanted."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from spdl._check import check_instance, check_iterable, positive
from spdl.store._ahead.windows import plan_windows
from spdl.store._protocol.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from spdl.store._ahead.windows import ObjectRead, Part, Window

__all__ = ["read_ahead"]

_WINDOWS = 4
"""Windows under way at a time: one is consumed, while the others are read."""
_MOST_PARTS = 1024


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
    windows = plan_windows(parts, most_bytes=max(1, max_bytes // _WINDOWS), most_parts=_MOST_PARTS)
    return _read(store, windows, max_bytes, concurrency)


def _read(store: Store, windows: Iterator[Window], max_bytes: int, concurrency: int) -> Iterator[Buffer]:
    executor = ThreadPoolExecutor(concurrency, thread_name_prefix="spdl-ahead")
    ahead: deque[tuple[Window, list[tuple[ObjectRead, Future[list[Buffer]]]]]] = deque()
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


def _get(store: Store, read: ObjectRead) -> list[Buffer]:
    return store.get_ranges(read.path, read.starts, read.lengths)


def _in_order(window: Window, reads: list[tuple[ObjectRead, Future[list[Buffer]]]]) -> Iterator[Buffer]:
    owners: list[tuple[Future[list[Buffer]], int]] = [(reads[0][1], 0)] * window.part_count
    for read, future in reads:
        for index, place in enumerate(read.places):
            owners[place] = future, index
    for future, index in owners:
        yield future.result()[index]
