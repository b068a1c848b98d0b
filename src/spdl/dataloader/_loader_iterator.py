"""One iteration of a loader, which goes on after a timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar, cast

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["LoaderIterator", "Read", "reads"]

Output = TypeVar("Output")


class Read(NamedTuple):
    """An item, or the exception if it did not come in time."""

    item: object
    error: TimeoutError | None


def reads(items: Iterator[object]) -> Generator[Read, None, None]:
    """Yield each item, and each TimeoutError, which would end the generator if it left it."""
    # The loop may drop its batch, which this frame must not hold until there is another.
    hand: list[Read] = []
    while True:
        try:
            hand.append(Read(next(items), None))
        except StopIteration:
            return
        except TimeoutError as error:
            hand.append(Read(None, error))
        yield hand.pop()


class LoaderIterator(Generic[Output]):
    """An iterator over one pass of a loader. After a TimeoutError the next read goes on.

    Args:
        passed: Yields what was read. It is closed when this object is dropped, as a generator is.
    """

    def __init__(self, passed: Generator[Read, None, None]) -> None:
        self._passed = passed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Output:
        item, error = next(self._passed)
        if error is None:
            return cast("Output", item)
        try:
            raise error
        finally:
            # Its frames hold it.
            del error

    def close(self) -> None:
        """End the iteration, as leaving a loop does."""
        self._passed.close()
