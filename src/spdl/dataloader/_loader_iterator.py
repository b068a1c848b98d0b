"""One iteration of a loader, which goes on after a timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.pipeline._pipeline.for_loaders import acknowledge, take, take_back
from spdl.pipeline._pipeline.in_hand import READS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from spdl.pipeline import Pipeline
    from spdl.pipeline._pipeline.iterator import PipelineIterator

__all__ = ["LoaderIterator", "Read", "reads"]

Output = TypeVar("Output")


class Read(NamedTuple):
    """An item that is not acknowledged yet, or the exception if it did not come in time."""

    pipeline: Pipeline[Any]
    root: Any
    item: Any
    error: TimeoutError | None


def reads(
    pipeline: Pipeline[Any], items: PipelineIterator[Any], begin_read: Callable[[Pipeline[Any]], None]
) -> Generator[Read, None, None]:
    """Yield each item, and each TimeoutError, which would end the generator if it left it.

    Args:
        pipeline: The pipeline.
        items: Its items.
        begin_read: Called with the pipeline before each read.
    """
    # The loop may drop its batch, which this frame must not hold until there is another.
    hand: list[Read] = []
    while True:
        begin_read(pipeline)
        try:
            hand.append(Read(pipeline, *take(items), None))
        except StopIteration:
            return
        except TimeoutError as error:
            hand.append(Read(pipeline, None, None, error))
        yield hand.pop()


class LoaderIterator(Generic[Output]):
    """An iterator over one pass of a loader. After a TimeoutError the next read goes on.

    Args:
        passed: Yields what was read. It is closed when this object is dropped, as a generator is.
    """

    def __init__(self, passed: Generator[Read, None, None]) -> None:
        self._passed = passed
        self._pipeline: Pipeline[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Output:
        self._pipeline, root, item, error = next(self._passed)
        if error is None:
            try:
                # Not before: a signal handler may come between, and the loop does not have the item yet.
                acknowledge(self._pipeline, root)
                received: Output = item
            except BaseException:
                # A Ctrl-C: nobody gets the item, so nobody has received it.
                take_back(self._pipeline, root)
                raise
            return received
        try:
            raise error
        finally:
            # Its frames hold it.
            del error

    def close(self) -> None:
        """End the iteration, as leaving a loop does."""
        self._passed.close()


READS.add(LoaderIterator.__next__.__code__)
