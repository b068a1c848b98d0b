"""Describes the ops that still run after a pipeline should have stopped."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from types import FrameType

from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._stages.executors import ExecutorNode
from spdl.pipeline._state.origins import Root
from spdl.pipeline._world import Thread, get_ident

_FRAMES_SHOWN = 3


def describe_stragglers(engine: Engine, threads: list[Thread]) -> str:
    """Return a text that names each op that still runs, its item, and the line that it is at.

    The op that a thread runs is read from its stack, so that the engine need not record it for every item.
    """
    lines = []
    others = []
    # Parts of it that have their own threads are looked at as well.
    engines = [engine, *(each for node in engine.nodes for each in node.engines_inside())]
    suspended = [line for each in engines for line in _suspended(each)]
    named = {thread.ident: thread.name for thread in threads}
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to see what a thread does.
    # This function's own frame would hold itself, and so its callers' frames with all that they have.
    frames.pop(get_ident(), None)
    for ident, frame in frames.items():
        works = ((each, work) for each in engines if (work := _work_of(each, frame)) is not None)
        found = next(works, None)
        stack = "".join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]).rstrip()
        if found is not None:
            owner, (where, root) = found
            thread = f", in {named[ident]}" if ident in named else ""
            # Only the pipeline itself knows where its items come from.
            item = _item(engine, root) if owner is engine else ""
            lines.append(f"{where}{item}{thread}:\n{stack}")
        elif ident in named and not (suspended and frame.f_globals.get("__name__") == "selectors"):
            # It runs something else, such as a background task. An event loop that only waits is not worth a line.
            others.append(f"{named[ident]}:\n{stack}")
    lines += suspended
    for node in engine.nodes:
        if isinstance(node, ExecutorNode):
            calls = [roots for roots in list(node.futures.values()) if roots]
            lines += [f"Stage {node.name!r}{_item(engine, *roots)}, in its executor." for roots in calls]
    count = len(lines)
    lines.insert(0, f"{count} op(s) of the pipeline still run; an op that does not return cannot be interrupted.")
    return "\n".join(lines + others)


def _suspended(engine: Engine) -> list[str]:
    """Describe the ops on the event loop that do not heed their cancellation."""
    lines = []
    for task in [] if engine.event_loop is None else engine.event_loop.suspended():
        frames = list(_frames_of(task.get_coro()))
        works = [work for frame in frames if (work := _work_of(engine, frame)) is not None]
        if works:
            where, root = works[-1]
            places = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames[-_FRAMES_SHOWN:])
            stack = "".join(places.format()).rstrip()
            lines.append(f"{where}{_item(engine, root)}, on the event loop:\n{stack}")
    return lines


def _frames_of(awaited: object) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of the awaitables that it awaits, outermost first."""
    while awaited is not None:
        for kind in ("cr", "ag", "gi"):
            if isinstance(frame := getattr(awaited, f"{kind}_frame", None), FrameType):
                yield frame
                awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
                break
        else:
            return


def _work_of(engine: Engine, frame: FrameType | None) -> tuple[str, Root | None] | None:
    """Return the stage whose op this stack is in, and the item's root, or the source that is being closed."""
    while frame is not None:
        if (found := _work_in(engine, frame)) is not None:
            return found
        frame = frame.f_back
    return None


# What runs ops has the stage among its variables.
_AT_WORK = ("spdl.pipeline._stages.", "spdl.pipeline._elsewhere.", "spdl.pipeline._engine.source")


def _work_in(engine: Engine, frame: FrameType) -> tuple[str, Root | None] | None:
    if not str(frame.f_globals.get("__name__")).startswith(_AT_WORK):
        return None
    names = frame.f_locals
    node = names.get("node", names.get("self"))
    if isinstance(node, Node) and node.engine is engine:
        # Some frames have the item's root itself; others have an attempt or a generator that holds it.
        holders = [names.get("attempt"), names.get("parked"), *(names.get("hand") or ())]
        roots = (getattr(holder, "root", None) for holder in holders)
        root = names.get("root", next((root for root in roots if root is not None), None))
        return f"Stage {node.name!r}", root
    if isinstance(node, Source) and node.engine is engine and node.closing:
        return f"Source {node.name!r}, which is being closed", None
    return None


def _item(engine: Engine, *roots: Root | None) -> str:
    known = [root for root in roots if root is not None]
    return f", {engine.lineage.describe(engine.lineage.gather(known))}" if known else ""
