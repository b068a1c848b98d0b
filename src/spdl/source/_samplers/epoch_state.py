"""What a sampler says about how far it has come: a few numbers that JSON can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from spdl._check import check_iterable, show
from spdl.source._order.shares import EMPTY, Plan, Runs, Sharing
from spdl.source._samplers.distributed import MOST_RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EpochState", "merge_states", "read_state", "write_state"]

_KIND = "spdl.source.EpochSampler"
_VERSION = 1


class EpochState(NamedTuple):
    """How far the ranks have come in an epoch.

    Attributes:
        fingerprint: The text that names the order and the data.
        size: The number of positions of an epoch.
        epoch: The epoch.
        sharing: How the ranks share the positions that are not in `delivered`.
        rank: Whose items `received` counts; None if `delivered` says everything.
        delivered: The positions of the epoch that were delivered before that sharing began.
        received: The items that the rank has received since then, by their numbers among all that it takes.
        others_behind: Whether other ranks may have a batch left of the epoch before, which had one less on this rank.
    """

    fingerprint: str
    size: int
    epoch: int
    sharing: Sharing
    rank: int | None
    delivered: Runs
    received: Runs
    others_behind: bool = False

    @property
    def plan(self) -> Plan:
        """The sharing that was going on."""
        return Plan(self.size, self.delivered, self.sharing)


def write_state(state: EpochState) -> dict[str, Any]:
    """Return the state as a dict of texts, numbers and lists of numbers."""
    written = {
        "kind": _KIND,
        "version": _VERSION,
        "fingerprint": state.fingerprint,
        "size": state.size,
        "epoch": state.epoch,
        **state.sharing._asdict(),
        "rank": state.rank,
        "delivered": state.delivered.to_gaps(),
        "received": state.received.to_gaps(),
    }
    if state.others_behind:
        written["others_behind"] = True
    return written


def read_state(state: object, argument: str = "state") -> EpochState:
    """Return what `write_state` wrote.

    Raises:
        TypeError: If it is no dict.
        ValueError: If it is the state of something else, or of a newer version, or incomplete.
    """
    if not isinstance(state, dict):
        raise TypeError(f"`{argument}` must be a dict that state_dict() returned, got {show(state)}.")
    if state.get("kind") != _KIND:
        _refuse(
            argument, f"its 'kind' must be {_KIND!r}, got {show(state.get('kind'))}: it is the state of another object"
        )
    version = state.get("version")
    if type(version) is not int or version < 1:
        _refuse(argument, f"its 'version' must be a positive int, got {show(version)}")
    if version > _VERSION:
        raise ValueError(
            f"`{argument}` was written by a newer version of the library: its 'version' is {version}, and this one "
            f"reads up to {_VERSION}. Update the library, or begin the epoch anew."
        )
    sharing = Sharing(
        _read_int(state, argument, "world_size", least=1, most=MOST_RANKS),
        _read_int(state, argument, "batch_size", least=1),
        _read_flag(state, argument, "drop_last"),
        _read_flag(state, argument, "even_batches"),
    )
    rank = None if _read(state, argument, "rank") is None else _read_int(state, argument, "rank", least=0)
    if rank is not None and rank >= sharing.world_size:
        _refuse(argument, f"its 'rank' must be less than its 'world_size' {sharing.world_size}, got {rank}")
    fingerprint = _read(state, argument, "fingerprint")
    if not isinstance(fingerprint, str):
        _refuse(argument, f"its 'fingerprint' must be a str, got {show(fingerprint)}")
    read = EpochState(
        fingerprint,
        _read_int(state, argument, "size", least=1),
        _read_int(state, argument, "epoch", least=0),
        sharing,
        rank,
        _read_runs(state, argument, "delivered"),
        _read_runs(state, argument, "received"),
        _read_flag({"others_behind": False, **state}, argument, "others_behind"),
    )
    if read.delivered.stop > read.size:
        _refuse(
            argument,
            f"its 'delivered' must lie below its 'size' {read.size}, got positions up to {read.delivered.stop}",
        )
    received = read.received.stop
    if received > (0 if rank is None else read.plan.count(rank)):
        _refuse(argument, f"its 'received' counts more items than the rank takes, got numbers up to {received}")
    return read


def merge_states(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one state that says what all ranks together have received.

    It restores any number of ranks with any batch size. In training in which all ranks take a step together, one rank's
    state says as much, so there is nothing to merge. Merge where ranks progress independently, or where items arrive in
    the order in which they are finished.

    Args:
        states: What ``state_dict()`` returned in each rank, in any order: that of a sampler, or of a pipeline or
            `DataLoader` whose source is an `EpochSampler`.

    Raises:
        TypeError: If it is no list, or an element no dict.
        ValueError: If the states are not those of all ranks of one run, each once, or if some ranks have begun an epoch
            that others have not.

    Example:
        >>> from spdl.source import EpochSampler, merge_states
        >>> ranks = [EpochSampler(10, shuffle=False, rank=rank, world_size=2) for rank in range(2)]
        >>> for sampler, received in zip(ranks, (3, 1)):
        ...     _ = list(zip(range(received), sampler))
        >>> alone = EpochSampler(10, shuffle=False, rank=0, world_size=1)
        >>> alone.load_state_dict(merge_states([sampler.state_dict() for sampler in ranks]))
        >>> list(alone)
        [3, 5, 6, 7, 8, 9]
    """
    check_iterable("states", states, "the states of all ranks, in a list")
    given: list[Any] = list(states)
    if given and all(isinstance(state, dict) and "spdl" in state for state in given):
        return _merge_loaders(given)
    read = [read_state(state, f"states[{number}]") for number, state in enumerate(given)]
    if not read:
        raise ValueError("`states` must hold the state of each rank, got none.")
    first = read[0]
    if len(read) == 1 and first.rank is None:
        return write_state(first)
    for number, state in enumerate(read):
        _compare(first, state, number)
    ranks = [state.rank for state in read]
    if sorted(rank for rank in ranks if rank is not None) != list(range(first.sharing.world_size)):
        raise ValueError(
            f"`states` must hold one state of each of the {first.sharing.world_size} ranks, got those of the ranks "
            f"{show(ranks)}."
        )
    epoch = min(state.epoch for state in read)
    plan = next(state for state in read if state.epoch == epoch).plan
    received = [EMPTY] * plan.sharing.world_size
    for state in read:
        rank = state.rank or 0
        if state.epoch == epoch:
            received[rank] = state.received
        elif state.epoch > epoch + 1 or state.received.count:
            raise ValueError(
                f"`states` must be of one epoch, but the rank {rank} has begun epoch {state.epoch} while others are in "
                f"epoch {epoch}: save the states of all ranks after the same step."
            )
        else:
            received[rank] = Runs([(0, plan.count(rank))])
    return write_state(
        EpochState(first.fingerprint, first.size, epoch, first.sharing, None, plan.taken(received), EMPTY)
    )


def _merge_loaders(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the states of pipelines or loaders side by side: what loads them knows the sampler, and merges its."""
    kinds = {state["spdl"] for state in states}
    if len(kinds) > 1 or any("ranks" in state for state in states):
        raise ValueError(
            f"`states` must be those of one kind of loader, each of one rank, got {sorted(map(str, kinds))}."
        )
    return {"spdl": states[0]["spdl"], "version": states[0].get("version"), "ranks": list(states)}


def _compare(first: EpochState, state: EpochState, number: int) -> None:
    ours = (first.fingerprint, first.size, first.sharing)
    theirs = (state.fingerprint, state.size, state.sharing)
    same_start = state.epoch != first.epoch or state.delivered == first.delivered
    if ours != theirs or not same_start:
        what = "began at other positions" if ours == theirs else f"{_describe(first)} and {_describe(state)}"
        raise ValueError(f"`states[0]` and `states[{number}]` must be of one run, but they differ: {what}.")


def _describe(state: EpochState) -> str:
    return f"{state.fingerprint} with {', '.join(f'{name}={value}' for name, value in state.sharing._asdict().items())}"


def _read(state: dict[str, Any], argument: str, name: str) -> Any:
    if name not in state:
        _refuse(argument, f"it has no {name!r}: it was cut off or changed")
    return state[name]


def _read_int(state: dict[str, Any], argument: str, name: str, *, least: int, most: int | None = None) -> int:
    value = _read(state, argument, name)
    if type(value) is not int or value < least or (most is not None and value > most):
        limit = "" if most is None else f" and at most {most}"
        _refuse(argument, f"its {name!r} must be an int of at least {least}{limit}, got {show(value)}")
    return value


def _read_flag(state: dict[str, Any], argument: str, name: str) -> bool:
    value = _read(state, argument, name)
    if not isinstance(value, bool):
        _refuse(argument, f"its {name!r} must be true or false, got {show(value)}")
    return value


def _read_runs(state: dict[str, Any], argument: str, name: str) -> Runs:
    gaps = _read(state, argument, name)
    if not isinstance(gaps, list) or not all(type(gap) is int and gap >= 0 for gap in gaps):
        _refuse(argument, f"its {name!r} must be a list of ints of at least 0, got {show(gaps)}")
    return Runs.from_gaps(gaps)


def _refuse(argument: str, reason: str) -> NoReturn:
    raise ValueError(f"`{argument}` is no state that this sampler can go on from: {reason}.")
