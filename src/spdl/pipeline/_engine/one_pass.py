"""An iterator over what a method returns, for sources that are one object and have several passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OnePass"]


class OnePass:
    """An iterator that is not the iterable itself, or a pass without items would look like an exhausted source.

    Args:
        take: Returns the next item, or raises StopIteration.
    """

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._take()
