"""Fetching in advance, as many bytes as are allowed."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._locate import for_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

__all__ = ["prefetch"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_THREADS = 8


def prefetch(
    fetch: Callable[[Piece], Result], pieces: Iterable[Piece], size_of: Callable[[Piece], int], most: int
) -> Iterator[Result]:
    """Yield what is fetched for some pieces, in their order.

    Args:
        fetch: Fetches a piece. Several threads call it at once. They end with the iterator.
        pieces: What to fetch.
        size_of: Returns how many bytes a piece has.
        most: How many bytes may be here or on their way in all; a single piece may have more.
    """
    executor = ThreadPoolExecutor(_THREADS, "spdl-prefetch")
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
