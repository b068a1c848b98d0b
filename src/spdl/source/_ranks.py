"""Ranks that take equally many steps, and iterables that are shared among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar

from spdl._check import check_choice, check_iterable, refuse, refuse_set
from spdl._not_here import require
from spdl.source._samplers.distributed import find_rank, warn_of_idle_rank


class Agreement(Protocol):
    """A number that is not known yet. A `concurrent.futures.Future` is one."""

    def result(self) -> int:
        """Wait for the number, and return it."""


# Called by every rank with a number. Its result gives each rank the least of all these numbers.
Agree: TypeAlias = Callable[[int], Agreement | SupportsIndex]


def number_of(answer: Agreement | SupportsIndex) -> int:
    if hasattr(answer, "__index__"):
        return answer.__index__()
    if not callable(getattr(answer, "result", None)):
        refuse(TypeError, "agree", "a function that returns an int or a future", answer)
    return answer.result()


class _Reduced:
    def __init__(self, work: Any, number: Any) -> None:
        self._work = work
        self._number = number

    def result(self) -> int:
        self._work.wait()
        return int(self._number)


def agree_over_torch(group: Any = None) -> Agree:
    """Return what `EqualSteps` and `shard` take as ``agree``, over ``torch.distributed``.

    Call it on all ranks, at the same point of the program, after ``init_process_group``.

    Args:
        group: A process group of these ranks that works on the CPU, such as gloo, and that nothing else uses
            at the same time. None makes one of all ranks.

    Returns:
        A function that takes an int and starts to find the least of all ranks' ints. It does not wait.

    Raises:
        ImportError: If PyTorch is not installed.
        RuntimeError: If ``torch.distributed`` is not initialised.

    Example:
        >>> from spdl.source import agree_over_torch
        >>> agree_over_torch()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        RuntimeError: torch.distributed is not initialised: ...
    """
    torch = require("torch", "agree_over_torch")
    distributed = require("torch.distributed", "agree_over_torch", extra="torch")
    if not (distributed.is_available() and distributed.is_initialized()):
        raise RuntimeError(
            "torch.distributed is not initialised: call init_process_group() on all ranks before agree_over_torch()."
        )
    if group is None:
        # A training step's collectives are on another group, so the two never wait for each other.
        group = distributed.new_group(backend="gloo")

    def agree(number: int) -> _Reduced:
        tensor = torch.tensor(number, dtype=torch.int64)
        work = distributed.all_reduce(tensor, op=distributed.ReduceOp.MIN, group=group, async_op=True)
        return _Reduced(work, tensor)

    return agree


T = TypeVar("T")

_NONE: Any = object()


class EqualSteps(Generic[T]):
    """An iterable over the steps of one rank that ends after the last step that all ranks have.

    In distributed training every rank waits in each step for all others, so ranks with different numbers of steps wait
    forever. Here the ranks tell each other, one step ahead, whether they have another one. They do so while the step
    continues, which hides the time it takes.

    A rank that has more steps than another has read one of them that is not used. All ranks have to take the same
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
        # The loader's state before the step that was read ahead; None if nothing is.
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
        """Let the loader continue at the state.

        Raises:
            AttributeError: If the loader has no ``load_state_dict``.
        """
        self._steps.load_state_dict(state)  # type: ignore[attr-defined]
        self._state = None


def shard(
    source: Iterable[T],
    rank: int | None = None,
    world_size: int | None = None,
    *,
    stop: Literal["drop", "pad", "agree"] = "drop",
    agree: Agree | None = None,
) -> Iterable[T]:
    """Return the part of an iterable that one of several ranks takes: every ``world_size``-th item, from its rank on.

    All ranks iterate the same source, each by itself. They differ at the end, when items may be left for some of the
    ranks only. For indices, `EpochSampler` does more: it shuffles, continues anywhere, and passes over nothing.

    Args:
        source: Any iterable. From a sequence, only the rank's own items are read; anything else is iterated as a
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
    refuse_set("source", source)
    rank, world_size = find_rank(rank, world_size)
    check_choice("stop", stop, ("drop", "pad", "agree"))
    if (agree is None) == (stop == "agree"):
        accepted = (
            "given with stop='agree', such as agree_over_torch()" if agree is None else "given with stop='agree' only"
        )
        refuse(ValueError, "agree", accepted, agree)
    part = _RankShare(source, rank, world_size, stop)
    return part if agree is None else EqualSteps(part, agree)


class _RankShare(Generic[T]):
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
