"""The check that a loader which is cut anywhere goes on exactly there, here and on other ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import ExitStack
from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import check_flag, check_int, check_iterable, positive, refuse
from spdl._signatures import signature
from spdl.testing._reading import (
    Epochs,
    Make,
    Reader,
    ResumableLoader,
    check_numbers,
    describe_difference,
    freeze,
    leaves,
    open_reader,
)

if TYPE_CHECKING:
    Items: TypeAlias = Callable[[Any], Iterable[Hashable]]


class Setup(NamedTuple):
    """The ranks of a job, and how many items they take at a time."""

    ranks: list[Make]
    batch_size: int | None
    name: str

    def items_per_step(self) -> int:
        return len(self.ranks) * (self.batch_size or 1)


def check_elsewhere(setups: Sequence[Setup], items: Items, cuts: Collection[int] | None) -> None:
    """Cut all ranks of each setup after some steps of an epoch, or each, and continue with those of each other setup.

    Raises an AssertionError if items are lost, or come twice though no rank repeats them to be in step with the others.
    """
    wholes = [_received(setup, None, items) for setup in setups]
    # An item that some setup yields less often is one that others repeat.
    every: Counter[Hashable] = Counter()
    for item in set().union(*(whole.items for whole in wholes)):
        every[item] = min(whole.items[item] for whole in wholes if whole.items[item])
    complete = all(not every - whole.items for whole in wholes)
    for before, whole in zip(setups, wholes, strict=True):
        for cut in range(whole.steps + 1) if cuts is None else [cut for cut in cuts if cut <= whole.steps]:
            first = _received(before, cut, items)
            for after in setups:
                if after is before:
                    continue
                rest = _received(after, None, items, state=first.state)
                place = f"epoch 0, {before.name}, cut after step {cut} and gone on with by {after.name}"
                # Items that do not fill the last step may be left out, where some are left out without a cut.
                missing = 0 if complete else max(before.items_per_step(), after.items_per_step()) - 1
                repeats = len(before.ranks) + len(after.ranks) - 2
                _compare(place, every, first.items + rest.items, missing=missing, repeats=repeats)


class _AllReceived(NamedTuple):
    """The items that all ranks together have received, the number of steps, and the state of all ranks."""

    items: Counter[Hashable]
    steps: int
    state: Any


def _received(setup: Setup, cut: int | None, items: Items, *, state: Any = None) -> _AllReceived:
    received: Counter[Hashable] = Counter()
    with ExitStack() as stack:
        # They run side by side, as their processes do.
        readers = [stack.enter_context(open_reader(make, 1, state=state)) for make in setup.ranks]
        steps = max(_read(reader, cut) for reader in readers)
        for reader in readers:
            received.update(item for value in reader.got[0] for item in items(value))
        return _AllReceived(received, steps, _merge([reader.state() for reader in readers]))


def _read(reader: Reader, cut: int | None) -> int:
    """Read items, and not the end of the epoch, unless all is read. Return how many there were."""
    reader.read(cut)
    return len(reader.got[0])


def _merge(states: list[dict[str, Any]]) -> Any:
    """Return one state for all ranks: merged, or any rank's if all take their steps together."""
    kinds = {str(state.get("spdl", state.get("kind"))) for state in states}
    if len(states) == 1 or not kinds <= {"pipeline", "dataloader", "spdl.source.EpochSampler"}:
        return states[0]
    from spdl.source import merge_states  # noqa: PLC0415 - only loaders of several ranks need it.

    return merge_states(states)


def _compare(place: str, wanted: Counter[Hashable], got: Counter[Hashable], *, missing: int, repeats: int) -> None:
    if (wanted - got).total() <= missing and got.keys() <= wanted.keys() and (got - wanted).total() <= repeats:
        return
    raise AssertionError(describe_difference(place, [], [], wanted, got))


def assert_resumes_exactly(
    make: Callable[..., ResumableLoader],
    world: Sequence[int] = (1, 2, 3, 5),
    batch: Sequence[int] = (1, 4, 7),
    *,
    ordered: bool = True,
    epochs: int = 1,
    cuts: Iterable[int] | None = None,
    items: Callable[[Any], Iterable[Hashable]] = leaves,
) -> None:
    """Check that a pipeline or loader that is cut at any step goes on exactly there.

    It reads a loader to its end. Then, for every number of steps, it reads another one that far, passes its state
    through JSON, loads that into a third one, reads some steps, does the same again, and reads the rest. A step is an
    item, or the end of an epoch. All items together must be the same as without cuts.

    With several numbers of processes or batch sizes, all processes are also cut after each step of the first epoch, and
    those of every other number and batch size go on: together they must receive what was left, each item once, but for
    those that a process repeats to be in step with the others.

    Args:
        make: Makes a new loader: a `Pipeline` that was not started, a `DataLoader`, or anything that can be iterated
            and has ``state_dict`` and ``load_state_dict``. Without parameters, or with ``batch_size`` only, it makes
            one that belongs to a single process. With ``rank`` and ``world_size``, it makes the loader of one
            process of several. They are passed by keyword.
        world: The numbers of processes. Unused if `make` takes no ``rank``.
        batch: The batch sizes. Unused if `make` takes no ``batch_size``.
        ordered: Whether the very sequence has to be the same, or only the set of items, whichever batches they are in:
            for stages in the order of completion, and for merges. If other processes go on, sets are compared.
        epochs: How many epochs to read. A loader is iterated that often; a pipeline needs ``continuous=True`` for more
            than one.
        cuts: After how many steps to cut. The default is after each, from 0 to the last.
        items: Returns the items in what the loader yields, as hashable values. By default the elements of lists and of
            arrays; a tuple, dict or dataclass of columns of one length has as many items as these are long. Of batches
            of the ready-made loaders, these are the data and the labels: name other fields to compare them as well.

    Raises:
        AssertionError: If an item is lost or comes twice, or if the sequence is another. The message says at which cut.
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> from spdl.testing import assert_resumes_exactly
        >>> def make():
        ...     return PipelineBuilder().add_source(range(9)).aggregate(2).add_sink().build(num_threads=1)
        >>> assert_resumes_exactly(make)
    """
    check_flag("ordered", ordered)
    positive("epochs", epochs)
    parameters = _parameters(make)
    worlds = check_numbers("world", world) if "rank" in parameters else [1]
    batches: list[int | None] = [*check_numbers("batch", batch)] if "batch_size" in parameters else [None]

    def maker(rank: int, size: int, batch_size: int | None) -> Make:
        given = {"rank": rank, "world_size": size, "batch_size": batch_size}
        return lambda: make(**{name: given[name] for name in parameters})

    if not callable(items):
        refuse(TypeError, "items", "a function that returns the items in what the loader yields", items)
    if cuts is not None:
        check_iterable("cuts", cuts, "numbers of steps, such as (0, 1, 5), or None")
    cuts = None if cuts is None else sorted({check_int("cuts", cut, least=0) for cut in cuts})
    check = _Check(epochs, ordered, items, cuts)
    for size in worlds:
        for batch_size in batches:
            for rank in range(size):
                where = _where(rank, size, batch_size)
                check.alone(maker(rank, size, batch_size), f" ({where})" if where else "")
    setups = [
        Setup([maker(rank, size, batch_size) for rank in range(size)], batch_size, _where(None, size, batch_size))
        for size in dict.fromkeys(worlds)
        for batch_size in dict.fromkeys(batches)
    ]
    if len(setups) > 1:
        check_elsewhere(setups, items, cuts)


def _parameters(make: Callable[..., ResumableLoader]) -> set[str]:
    if not callable(make):
        refuse(TypeError, "make", "a function that makes a pipeline or loader", make)
    names = {
        name
        for name, parameter in signature(make).parameters.items()
        if parameter.default is Parameter.empty
        and parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    }
    accepted = {"rank", "world_size", "batch_size"}
    optional = {name for name in signature(make).parameters if name in accepted}
    if names - accepted or len(names & {"rank", "world_size"}) == 1:
        expected = "a function without parameters, or with `rank` and `world_size`, `batch_size`, or all three"
        refuse(TypeError, "make", expected, make)
    return names | optional


def _where(rank: int | None, size: int, batch_size: int | None) -> str:
    parts = []
    if rank is None:
        parts.append("1 rank" if size == 1 else f"{size} ranks")
    elif size > 1:
        parts.append(f"rank {rank} of {size}")
    if batch_size is not None:
        parts.append(f"batch size {batch_size}")
    return ", ".join(parts)


class _Check:
    """The settings of the comparison."""

    def __init__(
        self,
        epochs: int,
        ordered: bool,  # noqa: FBT001 - private.
        items: Callable[[Any], Iterable[Hashable]],
        cuts: list[int] | None,
    ) -> None:
        self.epochs = epochs
        self.ordered = ordered
        self.items = items
        self.cuts = cuts

    def alone(self, make: Make, where: str) -> None:
        """Cut one process, and go on with another one like it."""
        with open_reader(make, self.epochs) as reader:
            steps = reader.read()
            whole = reader.got[: self.epochs]
        for cut in self.cuts if self.cuts is not None else range(steps + 1):
            if cut > steps:
                refuse(ValueError, "cuts", f"numbers of steps up to {steps}, which the loader no longer has", cut)
            # The second cut lies as near or as far as it gets, in turn.
            further = (cut * 7 + 1) % max(1, steps - cut + 1)
            self._cut(make, cut, further, whole, where)

    def _cut(self, make: Make, cut: int, further: int, whole: Epochs, where: str) -> None:
        got: Epochs = [[]]
        with open_reader(make, self.epochs) as reader:
            reader.read(cut)
            state = self._leave(reader, got)
            ended = reader.ended
        with open_reader(make, self.epochs, state=state, before=ended) as reader:
            reader.read(further)
            state = self._leave(reader, got)
            ended = reader.ended
        with open_reader(make, self.epochs, state=state, before=ended) as reader:
            reader.read()
            self._leave(reader, got)
        found = f"cut after step {cut} and again {further} steps later{where}"
        self.compare(whole, got[: self.epochs], found)

    def _leave(self, reader: Reader, got: Epochs) -> dict[str, Any]:
        first, *others = reader.got
        got[-1] += first
        got += others
        return reader.state()

    def compare(self, whole: Epochs, got: Epochs, cut: str) -> None:
        """Raise unless the same came with cuts and without."""
        for epoch, (expected, found) in enumerate(zip(whole, got, strict=True)):
            place = f"epoch {epoch}, {cut}"
            if self.ordered:
                same = list(map(freeze, expected)) == list(map(freeze, found))
            else:
                same = self._count(expected) == self._count(found)
            if not same:
                raise AssertionError(
                    describe_difference(place, expected, found, self._count(expected), self._count(found))
                )

    def _count(self, values: list[Any]) -> Counter[Hashable]:
        return Counter(item for value in values for item in self.items(value))
