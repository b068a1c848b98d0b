"""The check that other ranks, with other batches, go on where some were cut."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.testing._differences import describe_difference
from spdl.testing._sessions import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from spdl.testing._sessions import Make, Reader

    Items: TypeAlias = Callable[[Any], Iterable[Hashable]]

__all__ = ["Setup", "check_elsewhere"]


class Setup(NamedTuple):
    """The ranks of a job, and how many items they take at a time."""

    ranks: list[Make]
    batch_size: int | None
    name: str

    def items_per_step(self) -> int:
        """Return how many items all ranks take together."""
        return len(self.ranks) * (self.batch_size or 1)


def check_elsewhere(setups: Sequence[Setup], items: Items, cuts: Collection[int] | None) -> None:
    """Cut all ranks of each setup after each step of an epoch, and go on with the ranks of each other setup.

    Args:
        setups: The setups.
        items: Returns the items in what a loader yields.
        cuts: After how many steps to cut; None cuts after each.

    Raises:
        AssertionError: If items are lost, or come twice though no rank repeats them to be in step with the others.
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


class _Received(NamedTuple):
    """What all ranks together have received, in how many steps, and the state of all of them."""

    items: Counter[Hashable]
    steps: int
    state: Any


def _received(setup: Setup, cut: int | None, items: Items, *, state: Any = None) -> _Received:
    received: Counter[Hashable] = Counter()
    with ExitStack() as stack:
        # They run side by side, as their processes do.
        readers = [stack.enter_context(open_reader(make, 1, state=state)) for make in setup.ranks]
        steps = max(_read(reader, cut) for reader in readers)
        for reader in readers:
            received.update(item for value in reader.got[0] for item in items(value))
        return _Received(received, steps, _merge([reader.state() for reader in readers]))


def _read(reader: Reader, cut: int | None) -> int:
    """Read items, and not the end of the epoch, unless all is read. Return how many there were."""
    reader.read(cut)
    return len(reader.got[0])


def _merge(states: list[dict[str, Any]]) -> Any:
    """Return one state of all ranks: merged, or that of any if all take their steps together."""
    kinds = {str(state.get("spdl", state.get("kind"))) for state in states}
    if len(states) == 1 or not kinds <= {"pipeline", "dataloader", "spdl.source.EpochSampler"}:
        return states[0]
    from spdl.source import merge_states  # noqa: PLC0415 - only loaders of several ranks need it.

    return merge_states(states)


def _compare(place: str, wanted: Counter[Hashable], got: Counter[Hashable], *, missing: int, repeats: int) -> None:
    if (wanted - got).total() <= missing and got.keys() <= wanted.keys() and (got - wanted).total() <= repeats:
        return
    raise AssertionError(describe_difference(place, [], [], wanted, got))
