"""The batches of an epoch that the consumer has received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Position", "Positions", "Received", "Step"]


class Position(NamedTuple):
    """How far the consumer is in one worker's copy of an iterable dataset.

    Attributes:
        batches: How many batches it has received, or was told that they failed.
        state: What the dataset or its iterator said of itself after them; None if they say nothing.
    """

    batches: int
    state: Any

    @classmethod
    def unpack(cls, packed: Any) -> Position:
        """Return the position of a list. Raises ValueError or TypeError if it is none."""
        batches, state = packed
        if type(batches) is not int or batches < 0:
            raise ValueError(f"{batches!r} batches")
        return cls(batches, state)


class Step(NamedTuple):
    """One batch that was received, or failed and was told.

    Attributes:
        turn: How many batches were received before it, of all workers.
        worker: The worker that loaded it.
        state: As in `Position`.
    """

    turn: int
    worker: int
    state: Any


class Positions:
    """The positions of all workers, and whose turn it is.

    Args:
        positions: Where the workers begin.
        worker: The worker whose batch comes first.
    """

    __slots__ = ("_settled", "latest")

    def __init__(self, positions: Sequence[Position], worker: int = 0) -> None:
        self._settled = 0, tuple(positions), worker
        # It is set by a mere assignment, as the last step before a batch is returned.
        self.latest: Step | None = None

    @property
    def turn(self) -> int:
        """How many batches are settled."""
        return self._settled[0]

    def receive(self, step: Step) -> None:
        """Note that the consumer was told that a batch failed."""
        self.settle()
        self.latest = step

    def settle(self) -> None:
        """Put the latest step in its place, before there is another one."""
        # In one assignment. From then on the latest is one that was settled already.
        self._settled = self._with_latest()

    def snapshot(self) -> tuple[tuple[Position, ...], int]:
        """Return the positions, and the worker whose batch comes next. It changes nothing."""
        _, positions, worker = self._with_latest()
        return positions, worker

    def _with_latest(self) -> tuple[int, tuple[Position, ...], int]:
        settled, latest = self._settled, self.latest
        turn, positions, _ = settled
        if latest is None or latest.turn != turn:
            return settled
        before = positions[latest.worker].batches
        moved = (
            *positions[: latest.worker],
            Position(before + 1, latest.state),
            *positions[latest.worker + 1 :],
        )
        return turn + 1, moved, (latest.worker + 1) % len(positions)


class Received:
    """A set of numbers: all below a mark, and the few beyond it that were received out of order.

    Args:
        below: All numbers below this one are in the set.
        beyond: Further numbers in the set.
    """

    __slots__ = ("_below", "_beyond", "latest")

    def __init__(self, below: int = 0, beyond: Iterable[int] = ()) -> None:
        self._below = below
        self._beyond = set(beyond)
        # It is set by a mere assignment, as the last step before a batch is returned: a signal handler sees either that
        # the batch was received, or a consumer that has not got it.
        self.latest: int | None = None

    @classmethod
    def unpack(cls, below: Any, beyond: Any) -> Received:
        """Return the set of a mark and the numbers beyond it. Raises ValueError or TypeError if they are none."""
        numbers = [below, *beyond]
        if any(type(number) is not int or number < 0 for number in numbers) or sorted({*numbers}) != numbers:
            raise ValueError(f"{below!r} batches received, and {beyond!r}")
        return cls(below, beyond)

    @property
    def below(self) -> int:
        """The mark. The latest number may still lie above it, though it belongs below."""
        return self._below

    def receive(self, number: int) -> None:
        """Note that the consumer was told that a batch failed."""
        self.settle()
        self.latest = number

    def settle(self) -> None:
        """Put the latest number in its place, before there is another one."""
        if self.latest is None:
            return
        self._beyond.add(self.latest)
        # In this order, a number is never in neither.
        while (number := self._below) in self._beyond:
            self._below = number + 1
            self._beyond.discard(number)
        self.latest = None

    def snapshot(self) -> tuple[int, list[int]]:
        """Return the mark and the sorted numbers beyond it. It changes nothing, so a signal handler may call it."""
        below = self._below
        numbers = self._beyond.copy()
        if self.latest is not None:
            numbers.add(self.latest)
        while below in numbers:
            below += 1
        return below, sorted(number for number in numbers if number > below)
