"""Reads parts of objects before they are wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from spdl._check import check_instance, check_int, check_iterable, positive, refuse
from spdl._counted import bytes_of_thread, note_read
from spdl.store._store import Store, check_object_path

if TYPE_CHECKING:
    from typing_extensions import Buffer

    _Answer = tuple[list[Buffer], int]


_WINDOWS = 4
"""Windows under way at a time: one is consumed, while the others are read."""
_MOST_PARTS = 1024


class Part(NamedTuple):
    """Bytes of an object that will be wanted.

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


def read_ahead(
    store: Store, parts: Iterable[Part], *, max_bytes: int = 1 << 27, concurrency: int = 16
) -> Iterator[Buffer]:
    """Return an iterator over parts of objects, which are read before they are asked for, in a known order.

    A sampler knows the order of an epoch, so nothing has to be guessed. The next parts of an object are read by one
    call of `Store.get_ranges`, which reads neighbours at once. Several objects are read at a time, by threads of this
    iterator. They end when it does, and when it is no longer used; one that waits for a server ends with its request,
    for which the program may have to wait at its end, for the store's `timeout` at most.

    Args:
        store: The store of the objects.
        parts: The parts that will be wanted, in this order. It is asked for more as there is room, by the thread that
            iterates.
        max_bytes: How many bytes may be under way or waiting for the consumer, unless a single part has more.
        concurrency: How many objects are read at the same time.

    Raises:
        FileNotFoundError: In the place of a part whose object is missing. The iteration ends with an error.
        StoreError: In the place of a part that cannot be read, or of one shortly before it in the same object, which is
            read by the same call.
        TypeError: If an argument has another type, or a part has no path, start and length.
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
    return _read(store, _windows(parts, max(1, max_bytes // _WINDOWS)), max_bytes, concurrency)


def _read(store: Store, windows: Iterator[list[Part]], max_bytes: int, concurrency: int) -> Iterator[Buffer]:
    executor = ThreadPoolExecutor(concurrency, thread_name_prefix="spdl-ahead")
    ahead: deque[tuple[int, list[tuple[Future[_Answer], int]]]] = deque()
    under_way = 0
    # The next one waits here until there is room for it.
    following = next(windows, None)
    try:
        while following is not None or ahead:
            while following is not None and len(ahead) < _WINDOWS:
                length = sum(part.length for part in following)
                if ahead and under_way + length > max_bytes:
                    break
                ahead.append((length, _submit(executor, store, following)))
                under_way += length
                following = next(windows, None)
            length, places = ahead.popleft()
            for future, index in places:
                answer, num_bytes = future.result()
                if index == 0:
                    # It was read for the thread that iterates.
                    note_read(num_bytes)
                yield answer[index]
            under_way -= length
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _windows(parts: Iterable[Part], most_bytes: int) -> Iterator[list[Part]]:
    """Yield parts that follow each other, of `most_bytes` at a time. They are taken when needed, and may not end."""
    window: list[Part] = []
    total = 0
    for part in map(_checked, parts):
        if window and (total + part.length > most_bytes or len(window) >= _MOST_PARTS):
            yield window
            window, total = [], 0
        window.append(part)
        total += part.length
    if window:
        yield window


def _submit(executor: ThreadPoolExecutor, store: Store, window: list[Part]) -> list[tuple[Future[_Answer], int]]:
    """Submit the reads of a window, one for each object. Return for each part its answer and its place there."""
    places: dict[str, list[int]] = {}
    for place, part in enumerate(window):
        places.setdefault(part.path, []).append(place)
    found: dict[int, tuple[Future[_Answer], int]] = {}
    for path, among in places.items():
        starts, lengths = [window[place].start for place in among], [window[place].length for place in among]
        future = executor.submit(_get, store, path, starts, lengths)
        found.update((place, (future, index)) for index, place in enumerate(among))
    return [found[place] for place in range(len(window))]


def _get(store: Store, path: str, starts: list[int], lengths: list[int]) -> _Answer:
    return store.get_ranges(path, starts, lengths), bytes_of_thread()


def _checked(part: Part) -> Part:
    try:
        path, start, length = part
    except (TypeError, ValueError):
        refuse(TypeError, "parts", "an iterable of parts, such as Part('0.tar', 512, 1000)", part)
    return Part(check_object_path(path), check_int("start", start, least=0), check_int("length", length, least=0))
