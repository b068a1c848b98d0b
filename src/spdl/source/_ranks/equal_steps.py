"""An iterable that ends on all ranks after the same step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl._check import check_iterable, refuse

from .agreement import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .agreement import Agree

__all__ = ["EqualSteps"]

T = TypeVar("T")

_NONE: Any = object()


class EqualSteps(Generic[T]):
    """An iterable over the steps of one rank that ends after the last step that all ranks have.

    In distributed training every rank waits in each step for all others, so ranks with different numbers of steps wait
    for ever. Here the ranks tell each other, one step ahead, whether they have another one. They do so while the step
    goes on, which hides the time it takes.

    A rank that has more steps than another has read one of them that nobody gets. All ranks have to take the same
    steps: if they leave the loop early, they do so after the same one.

    Args:
        steps: The steps of this rank: a loader of batches, or any iterable.
        agree: Called with an int on each rank, it returns at once an object whose ``result()`` waits for the least of
            the ints of all ranks, such as a future. `agree_over_torch` makes one. A function that waits itself, and
            returns the int, will do; then nothing hides the time it takes.

    Raises:
        TypeError: If `steps` is not iterable, or `agree` not callable; in the loop, if `agree` returns anything else.

    Example:
        >>> import threading
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from spdl.source import EqualSteps
        >>> barrier, told = threading.Barrier(2), {}
        >>> def least(rank, number):
        ...     told[rank] = number
        ...     barrier.wait()
        ...     found = min(told.values())
        ...     barrier.wait()
        ...     return found
        >>> def run(rank, steps):
        ...     with ThreadPoolExecutor(1) as background:
        ...         return list(EqualSteps(steps, lambda number: background.submit(least, rank, number)))
        >>> with ThreadPoolExecutor(2) as ranks:
        ...     print(list(ranks.map(run, range(2), ["abc", "defgh"])))
        [['a', 'b', 'c'], ['d', 'e', 'f']]
    """

    def __init__(self, steps: Iterable[T], agree: Agree) -> None:
        check_iterable("steps", steps)
        if not callable(agree):
            refuse(TypeError, "agree", "a function that takes an int and returns an int or a future", agree)
        self._steps = steps
        self._agree = agree
        # What the loader said before the step that was read ahead; None where nothing is.
        self._state: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[T]:
        """Return an iterator over the steps of one epoch."""
        iterator = iter(self._steps)
        ahead = self._read(iterator)
        pending = self._agree(int(ahead is not _NONE))
        while number_of(pending):
            step = ahead
            ahead = self._read(iterator)
            # The others' answers come while the consumer is at work on this step.
            pending = self._agree(int(ahead is not _NONE))
            yield step
            del step
        if ahead is not _NONE:
            # Others have ended. The loader comes to the end of its epoch, so that the next one is the same everywhere.
            for _ in iterator:
                pass
        self._state = None

    def _read(self, iterator: Iterator[T]) -> T:
        if hasattr(self._steps, "state_dict"):
            self._state = self._steps.state_dict()
        return next(iterator, _NONE)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader without the step that was read ahead.

        Raises:
            AttributeError: If the loader has no ``state_dict``.
        """
        if self._state is not None:
            return self._state
        state: dict[str, Any] = self._steps.state_dict()  # type: ignore[attr-defined]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Have the loader go on where a state was taken.

        Raises:
            AttributeError: If the loader has no ``load_state_dict``.
        """
        self._steps.load_state_dict(state)  # type: ignore[attr-defined]
        self._state = None
