"""What has been consumed of each source, as a state holds it, and the way back from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .lineage import Progress
from .records import restored_from_state, state_of
from .resumption import Leg, Resumption
from .runs import runs_from_state, runs_to_state
from .sentinel import EPOCH_END
from .source_passes import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engine import Engine
    from .source import Source

__all__ = ["load", "take"]


def take(engine: Engine, in_hand: Sequence[Any] = ()) -> dict[str, Any]:
    """Return what an engine has consumed. Called with the lock held.

    Args:
        engine: The engine.
        in_hand: The roots of entries that are on their way to the consumer: they count as not consumed.
    """
    lineage = engine.lineage
    unconsumed = lineage.unconsumed([root for root in in_hand if root is not EPOCH_END])
    epoch = engine.epochs_read - sum(root is EPOCH_END for root in in_hand)
    progress = lineage.progress(unconsumed.roots)
    sources = sorted(engine.sources, key=lambda source: source.index)
    state: dict[str, Any] = {
        "epoch": epoch,
        "sources": [_source_state(source, *each, epoch) for source, each in zip(sources, progress, strict=True)],
    }
    if partial := state_of(unconsumed, lineage.restored, lineage.sources):
        state["partial"] = partial
    return state


def _source_state(source: Source, position: int, out: tuple[int, ...], epoch: int) -> dict[str, Any]:
    state: dict[str, Any] = {"position": position}
    if out:
        state["out"] = runs_to_state(out)
    lowest = out[0] if out else position
    passes = [each for each in source.passes.listed() if each.epoch >= epoch or lowest < (each.end or 0)]
    if passes:
        state["passes"] = [_pass_state(each) for each in passes]
    state["following"] = source.passes.following
    if (not passes or passes[-1].end is not None) and source.state_behind is not None:
        state["state"] = source.state_behind
    return state


def _pass_state(each: Pass) -> dict[str, Any]:
    state: dict[str, Any] = {"epoch": each.epoch, "begin": each.begin}
    if each.end is not None:
        state["end"] = each.end
    if each.first is not None:
        state["first"] = each.first
    if each.state is not None:
        state["state"] = each.state
    return state


def load(engine: Engine, state: dict[str, Any]) -> None:
    """Have an engine that was not started go on where a state was taken.

    Raises:
        ValueError: If the state is damaged. The engine is then as it was before.
    """
    epoch = _number(state, "epoch")
    sources = sorted(engine.sources, key=lambda source: source.index)
    states = state.get("sources")
    if not isinstance(states, list) or len(states) != len(sources):
        raise ValueError(f"it is of {len(states) if isinstance(states, list) else 'no'} sources")
    progress = [Progress(_number(each, "position"), tuple(runs_from_state(each.get("out", [])))) for each in states]
    passes = [_passes(each) for each in states]
    for source, (position, out), mine, each in zip(sources, progress, passes, states, strict=True):
        _check_passes(source, position, out, mine, _number(each, "following"))
    lineage = engine.lineage
    roots = {position * lineage.sources + source for source, (_, out) in enumerate(progress) for position in out}
    restored = restored_from_state(state.get("partial", {}), lineage.sources, roots)
    lineage.restore(progress, restored)
    for source, (position, out), mine, each in zip(sources, progress, passes, states, strict=True):
        source.resume(mine, each["following"], Resumption(_legs(mine, position, out, epoch), each.get("state")))
    engine.resume(epoch)


def _number(state: object, name: str) -> int:
    value = state.get(name) if isinstance(state, dict) else None
    if type(value) is not int or value < 0:
        raise ValueError(f"its {name!r} is no number")
    return value


def _passes(state: dict[str, Any]) -> list[Pass]:
    listed = state.get("passes", [])
    if not isinstance(listed, list):
        raise ValueError("its passes are no list")  # noqa: TRY004 - a damaged state is a bad value.
    return [
        Pass(
            _number(each, "epoch"),
            _number(each, "begin"),
            each.get("state"),
            each.get("first"),
            _number(each, "end") if "end" in each else None,
        )
        for each in listed
    ]


def _check_passes(source: Source, position: int, out: Sequence[int], passes: list[Pass], following: int) -> None:
    at = out[0] if out else position
    if passes and passes[0].begin > at:
        raise ValueError("it has positions of no pass")
    ends = [each.end for each in passes]
    if None in ends[:-1] or any(end is not None and end > position for end in ends):
        raise ValueError("its passes do not end where the next begin")
    for before, behind in zip(passes, passes[1:], strict=False):
        if (before.end or 0) > behind.begin or before.epoch >= behind.epoch:
            raise ValueError("its passes do not follow each other")
    if passes and passes[-1].epoch + 1 != following:
        raise ValueError("its passes are not numbered")
    if out and (not passes or out[-1] >= position):
        raise ValueError("it has positions of no pass")
    if len(passes) > 1 and not source.continuous:
        raise ValueError("it has several passes over a source that is not `continuous`")


def _legs(passes: list[Pass], position: int, out: Sequence[int], epoch: int) -> list[Leg]:
    legs = []
    for each in passes:
        end = position if each.end is None else each.end
        holes = [hole for hole in out if each.begin <= hole < end]
        legs.append(Leg(each, holes, position if each.end is None else None, each.epoch < epoch))
    return legs
