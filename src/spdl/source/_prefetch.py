"""Reading in advance, reading several at once, and a cache of what was decoded."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from spdl._locate import for_caller
from spdl._processes import renew_in_children

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_THREADS = 8


def prefetch(
    fetch: Callable[[Piece], Result],
    pieces: Iterable[Piece],
    size_of: Callable[[Piece], int],
    most: int,
    *,
    threads: int = _THREADS,
) -> Iterator[Result]:
    """Yield the results of fetching some pieces, in their order.

    Several threads fetch, and end with the iterator. At the most `most` bytes are here or on their way in all; a single
    piece may have more.
    """
    executor = ThreadPoolExecutor(threads, "spdl-prefetch")
    waiting: deque[tuple[int, Future[Result]]] = deque()
    held = 0
    try:
        for piece in pieces:
            size = size_of(piece)
            while waiting and held + size > most:
                fetched, future = waiting.popleft()
                yield future.result()
                held -= fetched
            held += size
            waiting.append((size, executor.submit(for_caller(fetch), piece)))
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        executor.shutdown(cancel_futures=True)


class ByteCache:
    """Values by their keys, as many as fit into some bytes, and at least the last one. Each is made once at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        # The threads of the parent, which make values, do not exist in a forked process.
        self._lock = threading.Lock()
        # The one that was asked for last is at the end. The bytes are known when it is made.
        self._kept: OrderedDict[Hashable, Future[tuple[Any, int]]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], tuple[Any, int]]) -> Any:
        """Return a value, which is made with its size in bytes if it is not here.

        What `make` raises, all get that wait for it. It is made again the next time.
        """
        with self._lock:
            future = self._kept.get(key)
            if found := future is not None:
                self._kept.move_to_end(key)
            else:
                future = self._kept[key] = Future()
        if not found:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                future.set_exception(error)
                raise
            self._trim()
        return future.result()[0]

    def _trim(self) -> None:
        dropped = []
        with self._lock:
            done = [(key, future.result()[1]) for key, future in self._kept.items() if future.done()]
            size = sum(each for _, each in done)
            for key, each in done[:-1]:
                if size <= self.most:
                    break
                size -= each
                dropped.append(self._kept.pop(key))
        # Large buffers are freed without the lock.
        dropped.clear()

    def __getstate__(self) -> int:
        return self.most

    def __setstate__(self, most: int) -> None:
        self.__init__(most)  # type: ignore[misc]


_MOST_AT_ONCE = 32


def read_ahead(read: Callable[[Piece], Iterable[Result]], pieces: Iterable[Piece], ahead: int) -> Iterator[Result]:
    """Yield the results of reading some pieces, in their order.

    `ahead` pieces are read while another is consumed, each in a separate thread; with 0 there are no threads.
    They end with the iterator.
    """
    if ahead == 0:
        for piece in pieces:
            yield from read(piece)
        return
    for results in prefetch(read, pieces, lambda _: 1, ahead + 1, threads=ahead):
        yield from results


def read_together(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of some calls, which run at the same time, in their order.

    If some fail, the exception of the first is raised when all have ended.
    """
    if len(calls) == 1:
        return [calls[0]()]
    if not calls:
        return []
    with ThreadPoolExecutor(min(len(calls), _MOST_AT_ONCE), "spdl-read") as executor:
        futures = [executor.submit(for_caller(call)) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
