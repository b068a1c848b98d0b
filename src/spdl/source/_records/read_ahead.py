"""Reading in advance of whoever iterates."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._locate import for_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

__all__ = ["read_ahead", "read_together"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_MOST_AT_ONCE = 32


def read_ahead(read: Callable[[Piece], Iterable[Result]], pieces: Iterable[Piece], ahead: int) -> Iterator[Result]:
    """Yield the results of reading some pieces, in their order.

    Args:
        read: Reads a piece.
        pieces: What to read.
        ahead: How many pieces are read while another is consumed, each in a thread of its own. With 0 there is no
            thread. The threads end with the iterator.
    """
    if ahead == 0:
        for piece in pieces:
            yield from read(piece)
        return
    executor = ThreadPoolExecutor(ahead, "spdl-read-ahead")
    try:
        waiting: deque[Future[Iterable[Result]]] = deque()
        for piece in pieces:
            waiting.append(executor.submit(for_caller(read), piece))
            if len(waiting) > ahead:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


def read_together(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of some calls, which run at the same time, in their order.

    Raises:
        Exception: That of the first call that fails. The others have ended by then.
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
