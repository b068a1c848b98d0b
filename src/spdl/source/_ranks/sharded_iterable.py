"""The part of any iterable that one rank takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from spdl._check import check_choice, check_iterable, refuse
from spdl.source._samplers.idle_rank import warn_of_idle_rank
from spdl.source._samplers.world import find_rank

from .equal_steps import EqualSteps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .agreement import Agree

__all__ = ["shard"]

T = TypeVar("T")


def shard(
    source: Iterable[T],
    rank: int | None = None,
    world_size: int | None = None,
    *,
    stop: Literal["drop", "pad", "agree"] = "drop",
    agree: Agree | None = None,
) -> Iterable[T]:
    """Return the part of an iterable that one of several ranks takes: every ``world_size``-th item, from its rank on.

    All ranks iterate the same source, each by itself. What differs is the end, where items may be left for some of the
    ranks only. For indices, `EpochSampler` does more: it shuffles, continues anywhere, and passes over nothing.

    Args:
        source: Any iterable. Of a sequence, only the rank's own items are asked for; anything else is iterated as a
            whole.
        rank: The number of this process; with `world_size`, None has both found as for `EpochSampler`.
        world_size: How many processes there are.
        stop: ``"drop"`` leaves out the items of the last round if it is not full. ``"pad"`` gives the ranks that would
            have none an item of another, so that nothing is left out. ``"agree"`` has the ranks tell each other whether
            they have another item, as `EqualSteps` does: for sources that do not have as many items on each rank, as
            they may if items are filtered or cannot be read.
        agree: What `EqualSteps` takes. Needed for ``stop="agree"``, and only there.

    Returns:
        An iterable, which can be iterated as often as the source. All ranks get the same number of items.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the rank and the number of ranks do not fit, or `agree` does not fit `stop`.

    Example:
        >>> from spdl.source import shard
        >>> [list(shard("abcde", rank, 2)) for rank in range(2)]
        [['a', 'c'], ['b', 'd']]
        >>> [list(shard("abcde", rank, 2, stop="pad")) for rank in range(2)]
        [['a', 'c', 'e'], ['b', 'd', 'e']]
    """
    check_iterable("source", source)
    rank, world_size = find_rank(rank, world_size)
    check_choice("stop", stop, ("drop", "pad", "agree"))
    if (agree is None) == (stop == "agree"):
        accepted = (
            "given with stop='agree', such as agree_over_torch()" if agree is None else "given with stop='agree' only"
        )
        refuse(ValueError, "agree", accepted, agree)
    part = _Part(source, rank, world_size, stop)
    return part if agree is None else EqualSteps(part, agree)


class _Part(Generic[T]):
    """Every so many-th item of an iterable."""

    def __init__(self, source: Iterable[T], rank: int, world_size: int, stop: str) -> None:
        self._source = source
        self._rank = rank
        self._world_size = world_size
        self._stop = stop

    def __iter__(self) -> Iterator[T]:
        return self._of_sequence(self._source) if isinstance(self._source, Sequence) else self._of_iterable()

    def _of_sequence(self, source: Sequence[T]) -> Iterator[T]:
        full = len(source) - len(source) % self._world_size
        for place in range(self._rank, full, self._world_size):
            yield source[place]
        left = len(source) - full
        if (number := self._of_last_round(left)) is not None:
            yield source[full + number]
        elif left and not full:
            self._warn(left)

    def _of_iterable(self) -> Iterator[T]:
        items = iter(self._source)
        is_first = True
        while len(turn := list(islice(items, self._world_size))) == self._world_size:
            is_first = False
            yield turn[self._rank]
        if (number := self._of_last_round(len(turn))) is not None:
            yield turn[number]
        elif turn and is_first:
            self._warn(len(turn))

    def _warn(self, count: int) -> None:
        remedy = "Take fewer ranks, or pass stop='pad', with which it gets one that another rank has too."
        warn_of_idle_rank(self._rank, self._world_size, count, "items", remedy)

    def _of_last_round(self, left: int) -> int | None:
        """Return which of the items of a round that is not full the rank takes."""
        if self._stop == "drop" or not left:
            return None
        if self._rank < left:
            return self._rank
        return self._rank % left if self._stop == "pad" else None
