"""Reads that go on after a timeout, for loaders whose timeouts are short."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


def reading_on(items: Iterator[T]) -> Iterator[T]:
    """Yield what an iterator yields, however often one of its reads takes too long."""
    while True:
        try:
            item = next(items)
        except TimeoutError:
            continue
        except StopIteration:
            return
        yield item
