"""The items that were consumed of each source, and the stages, as a state holds them; and the way back."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Sequence
from inspect import isasyncgenfunction, isgeneratorfunction
from itertools import pairwise
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._declare.op import bodies_of
from spdl.pipeline._declare.placement import outside
from spdl.pipeline._declare.records import (
    AggregateConfig,
    Collate,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    StageConfig,
    every_stage,
)
from spdl.pipeline._engine.node import KeepsItems
from spdl.pipeline._state.format import runs_from_state, runs_to_state
from spdl.pipeline._state.lineage import Progress
from spdl.pipeline._state.partial import histories_from_state, restored_from_state, state_of
from spdl.pipeline._state.passes import (
    Leg,
    Pass,
    ReceivedPositions,
    Resumption,
    can_merge,
    has_another_share,
    is_of_all_ranks,
)

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source


def stages_of(config: PipelineConfig[Any]) -> list[str]:
    """Return the kinds and names of the stages.

    Properties that may differ after a resume are left out: concurrencies, orders, policies, how many items make a
    batch, and where the stages run.
    """
    return [*_before(config), *_names(outside(config.pipes))]


def _before(config: PipelineConfig[Any]) -> Iterator[str]:
    if isinstance(config.src, MergeConfig):
        branches = "; ".join(", ".join(stages_of(branch)) for branch in config.src.pipeline_configs)
        yield f"merge({branches})"
    elif config.src.continuous:
        yield "continuous"


def _names(stages: Sequence[StageConfig]) -> Iterator[str]:
    for stage in stages:
        if isinstance(stage, AggregateConfig):
            yield "aggregate" if type(stage.op) is Collate else f"aggregate({type(stage.op).__qualname__})"
        elif isinstance(stage, PathVariantsConfig):
            paths = "; ".join(", ".join(_names(path)) for path in stage.paths)
            yield f"{stage.name}({paths}{'; batched' if stage.batched else ''})"
        elif isinstance(stage, DisaggregateConfig):
            yield stage.name
        else:
            yield f"pipe {stage.name}"


def changes_counts(config: PipelineConfig[Any]) -> str | None:
    """Return the name of a stage that is known to change how many items there are; None if no stage is.

    An op may change it without being known to, for example if it returns an object that is also a generator.
    """
    for stage in every_stage(outside(config.pipes)):
        match stage:
            case DisaggregateConfig():
                return stage.name
            case AggregateConfig(op=op) if type(op) is not Collate:
                return stage.name
            case PipeConfig(op=op) if _may_make_another_number(op):
                return stage.name
            case _:
                pass
    return None


def _may_make_another_number(op: Any) -> bool:
    if sys.version_info >= (3, 16):
        # It is not known what code looks like there, so any function may drop items.
        return True
    function, call = bodies_of(op)
    # The function of a class does not know whose method it is.
    owner = type(getattr(function, "__self__", function))
    return any(
        isgeneratorfunction(body) or isasyncgenfunction(body) or _may_return_none(body, owner, set())
        for body in (function, call)
    )


_CONSTANTS = {"LOAD_CONST", "RETURN_CONST", "LOAD_COMMON_CONSTANT"}
"""The instructions that have a constant, on all Pythons up to 3.15."""


def _may_return_none(function: Any, owner: type, seen: set[CodeType]) -> bool:
    """Return whether a function has a line that returns None, or an end without a return, or returns one's result."""
    code = getattr(function, "__code__", None)
    # Those of this package return something for each item, or say what they do.
    if code is None or code in seen or str(function.__module__).startswith("spdl."):
        return False
    seen.add(code)
    steps = list(dis.get_instructions(code))
    places = {step.offset: place for place, step in enumerate(steps)}
    for place, step in enumerate(steps):
        returned = step.opname == "RETURN_CONST" or _followed_by_return(steps, places, place)
        if returned and step.opname in _CONSTANTS and step.argval is None:
            # If a context manager swallows an exception. Nearly none does.
            if [before.opname for before in steps[max(0, place - 2) : place]] != ["POP_TOP", "POP_TOP"]:
                return True
        elif returned and step.opname.startswith("CALL"):
            return any(_may_return_none(each, owner, seen) for each in _functions_named(function, owner, code))
    return False


def _followed_by_return(steps: list[dis.Instruction], places: dict[int, int], place: int) -> bool:
    place += 1
    while place < len(steps) and steps[place].opname == "JUMP_FORWARD":
        place = places[steps[place].argval]
    return place < len(steps) and steps[place].opname == "RETURN_VALUE"


def _functions_named(function: Any, owner: type, code: CodeType) -> Iterator[FunctionType]:
    """Yield the functions that a function may call, as far as these are variables or its own methods."""
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    found = [function.__globals__.get(name) for name in code.co_names]
    found += [getattr(owner, name, None) for name in code.co_names]
    found += [cell.cell_contents for _, cell in cells if _is_filled(cell)]
    yield from (each for each in found if isinstance(each, FunctionType))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises.
    except ValueError:
        return False
    return True


def take(engine: Engine) -> dict[str, Any]:
    """Return what an engine has consumed. Called with the lock held."""
    lineage = engine.lineage
    unconsumed = lineage.unconsumed()
    # An end that is on its way to the consumer is not counted yet.
    epoch = engine.epochs_read
    progress = lineage.progress(unconsumed.roots)
    sources = sorted(engine.sources, key=lambda source: source.index)
    state: dict[str, Any] = {
        "epoch": epoch,
        "in_order": epoch >= engine.out_of_order_before and all(node.keeps_order() for node in engine.nodes),
        "sources": [_source_state(source, *each, epoch) for source, each in zip(sources, progress, strict=True)],
    }
    if (uneven := uneven_stage(engine)) is not None:
        state["uneven"] = uneven
    kept = [each.last_epoch() for each in _keepers(engine)]
    if any(last is not None and last >= epoch for last in kept):
        state["kept"] = kept
    return {**state, **state_of(unconsumed, lineage)}


def uneven_stage(engine: Engine) -> str | None:
    """Return the name of a stage that has been seen to change how many items there are; None if no stage has."""
    if engine.uneven is not None:
        return engine.uneven
    return next((node.name for node in engine.nodes if node.changed_counts()), None)


def _keepers(engine: Engine) -> list[KeepsItems]:
    return [keeper for node in engine.nodes if (keeper := node.keeps_items()) is not None]


def _kept(engine: Engine, state: dict[str, Any]) -> list[tuple[KeepsItems, int | None]]:
    """Return in which epoch each aggregator had last kept items past a result."""
    keepers = _keepers(engine)
    kept = state.get("kept", [None] * len(keepers))
    if len(kept) != len(keepers):
        raise ValueError(
            "an aggregator with `held_back()` had kept items past a result, and this pipeline has another number of "
            "such aggregators outside of regions"
        )
    return list(zip(keepers, kept, strict=True))


def _source_state(source: Source, position: int, out: tuple[int, ...], epoch: int) -> dict[str, Any]:
    state: dict[str, Any] = {"position": position}
    if out:
        state["out"] = runs_to_state(out)
    lowest = out[0] if out else position
    known, following = source.passes.known()
    passes = [each for each in known if each.epoch >= epoch or lowest < (each.end or 0)]
    if passes:
        state["passes"] = [_pass_state(each) for each in passes]
    state["following"] = following
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


def load(engine: Engine, state: dict[str, Any], uneven: Callable[[], str | None]) -> None:
    """Load a state into an engine that was not started. Runs code of the sources.

    ``uneven`` returns the name of a stage that may change how many items there are, if there is one.

    Raises:
        ValueError: If the state is of another kind of source or aggregator, or of a part of the data that cannot be
            shared again. The engine is then as it was before.
    """
    epoch = state["epoch"]
    sources = sorted(engine.sources, key=lambda source: source.index)
    parts = [_read(source, each) for source, each in zip(sources, state["sources"], strict=True)]
    lineage = engine.lineage
    restored = restored_from_state(state.get("partial", {}), lineage.sources)
    histories = histories_from_state(state.get("aggregators", []), len(lineage.histories), restored)
    kept = _kept(engine, state)
    in_order = state.get("in_order") is True
    out_of_order_before = 0
    changed = state.get("uneven")
    for number, (source, part) in enumerate(zip(sources, parts, strict=True)):
        if part.passes and has_another_share(source.iterable, part.passes[0].state):
            if restored is not None:
                raise ValueError(
                    "it was taken when only some of the results of an item had been received, so the rest of the data "
                    "cannot be shared among other ranks, or in other batches"
                )
            _check_share(source, part, changed or uneven(), has_leftovers=bool(histories))
            changed = None
            received = _received_of(part, in_order=in_order)
            source.iterable.load_state_dict(source.iterable.advance_state(*received))
            parts[number] = _SourcePart(Progress(0, ()), [], part.passes[0].epoch, source.own_state())
        elif not part.passes and has_another_share(source.iterable, part.behind):
            _check_share(source, part, changed or uneven(), has_leftovers=False)
            changed = None
            parts[number] = part._replace(behind=source.own_state())
        elif part.passes and not in_order:
            out_of_order_before = max(out_of_order_before, part.following)
    engine.note_uneven(changed)
    for keeper, last in kept:
        keeper.resume(last)
    lineage.restore([part.progress for part in parts], restored)
    for history, (leftover, again) in zip(lineage.histories, histories, strict=True):
        history.resume(leftover, again, epoch)
    for source, (progress, passes, following, behind) in zip(sources, parts, strict=True):
        source.resume(passes, following, Resumption(_legs(passes, *progress, epoch), behind))
    engine.resume(epoch, out_of_order_before=out_of_order_before)


def _check_share(source: Source, part: _SourcePart, uneven: str | None, *, has_leftovers: bool) -> None:
    """Raise if other ranks or batch sizes cannot continue with what a state says about a source."""
    if not part.progress.position:
        # No item was handed out.
        return
    if has_leftovers:
        raise ValueError(_LEFT_OVER)
    check_ranks(source.iterable, part.passes[0].state if part.passes else part.behind, uneven)


def check_ranks(source: Any, before: Any, uneven: str | None) -> None:
    """Raise ValueError if what a source said about itself on one rank does not tell what the others have received.

    ``uneven`` is the name of a stage that may have changed how many items there are, if there is one.
    """
    if uneven is not None and not is_of_all_ranks(source, before):
        raise ValueError(
            f"it is the state of one of several ranks, and stage {uneven!r} makes more or fewer items than it gets, so "
            "the state does not show what the other ranks have received. Save the states of all ranks, and load the "
            "result of `spdl.source.merge_states`"
        )


_LEFT_OVER = (
    "it holds what an aggregator has left over, which is a part of one rank's items, so the rest of the data cannot be "
    "shared among other ranks, or in other batches. Continue with the same ones to the end of the epoch"
)


def load_ranks(engine: Engine, states: Sequence[Any]) -> None:
    """Make an engine that was not started take its share of what several ranks have not received.

    Raises:
        ValueError: If they cannot be shared again. The engine is then unchanged.
    """
    source = engine.sources[0]
    if len(engine.sources) > 1 or not can_merge(source.iterable):
        raise ValueError("it is of several ranks, which only an EpochSampler as the only source can share again")
    epochs = [state["epoch"] for state in states]
    kept = [each for state in states for each in _kept(engine, state)]
    merged = source.iterable.merge_states([source_state(state, source.iterable) for state in states])
    source.iterable.load_state_dict(merged)
    source.resume([], min(epochs), Resumption([], source.own_state()))
    engine.resume(min(epochs))
    for keeper, last in sorted(kept, key=lambda each: -1 if each[1] is None else each[1]):
        keeper.resume(last)


class _SourcePart(NamedTuple):
    """One source's part of a state."""

    progress: Progress
    passes: list[Pass]
    following: int
    behind: Any


def _read(source: Source | None, state: dict[str, Any]) -> _SourcePart:
    progress = Progress(state["position"], tuple(runs_from_state(state.get("out", []))))
    passes = [
        Pass(each["epoch"], each["begin"], each.get("state"), each.get("first"), each.get("end"))
        for each in state.get("passes", [])
    ]
    if len(passes) > 1 and source is not None and not source.continuous:
        raise ValueError("it has several passes over a source that is not `continuous`")
    return _SourcePart(progress, passes, state["following"], state.get("state"))


def _received_of(part: _SourcePart, *, in_order: bool) -> ReceivedPositions:
    """Return what was received of the first pass that the consumer was not done with.

    If the pipeline delivers in the order of the source, positions beyond which others were received were dropped, and
    will be dropped again: the other ranks need not know about them.
    """
    first = part.passes[0]
    end = part.progress.position if first.end is None else first.end
    holes = [position - first.begin for position in part.progress.out if first.begin <= position < end]
    ends = [*holes, end - first.begin]
    beyond = [(before + 1, behind) for before, behind in pairwise(ends) if before + 1 < behind]
    return ReceivedPositions(first.state, ends[0], () if in_order else tuple(beyond))


def source_state(state: dict[str, Any], source: Any) -> Any:
    """Return what a source with shares would say about itself if its consumer had received what a state says.

    Raises:
        ValueError: If the state is of several sources, or says that only some of an item's results were received.
    """
    if state.get("partial"):
        raise ValueError("it was taken when only some of the results of an item had been received")
    states = state["sources"]
    if len(states) != 1:
        raise ValueError("it is not of one source")
    part = _read(None, states[0])
    if part.passes:
        if state.get("aggregators") and part.progress.position:
            raise ValueError(_LEFT_OVER)
        return source.advance_state(*_received_of(part, in_order=False))
    return part.behind


def _legs(passes: list[Pass], position: int, out: Sequence[int], epoch: int) -> list[Leg]:
    legs = []
    for each in passes:
        end = position if each.end is None else each.end
        holes = [hole for hole in out if each.begin <= hole < end]
        legs.append(Leg(each, holes, position if each.end is None else None, each.epoch < epoch))
    return legs
