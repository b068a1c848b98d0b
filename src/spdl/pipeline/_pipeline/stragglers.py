"""What still runs when a pipeline was to have stopped, in words."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import TYPE_CHECKING

from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.worker import serve
from spdl.pipeline._nodes.executors.base import ExecutorNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Thread

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.lineage import Root

__all__ = ["describe_stragglers"]

_FRAMES_SHOWN = 3


def describe_stragglers(engine: Engine, threads: list[Thread]) -> str:
    """Say which stage still works on what, and where.

    Which op a thread runs is read from its stack, so that it need not be written down for every op.
    """
    lines = []
    others = []
    suspended = _suspended(engine)
    named = {thread.ident: thread.name for thread in threads}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see what a thread does.
        work = _work_of(engine, frame)
        stack = "".join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]).rstrip()
        if work is not None:
            stage, root = work
            thread = f", in {named[ident]}" if ident in named else ""
            lines.append(f"Stage {stage!r}{_item(engine, root)}{thread}:\n{stack}")
        elif ident in named and not (suspended and frame.f_globals.get("__name__") == "selectors"):
            # It runs what is no stage's: a background task, say. That a loop waits as its tasks do goes without saying.
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
    """What is awaited on the event loop, and does not heed its cancellation."""
    lines = []
    for task in [] if engine.event_loop is None else engine.event_loop.suspended():
        frames = list(_frames_of(task.get_coro()))
        works = [work for frame in frames if (work := _work_of(engine, frame)) is not None]
        if works:
            stage, root = works[-1]
            places = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames[-_FRAMES_SHOWN:])
            stack = "".join(places.format()).rstrip()
            lines.append(f"Stage {stage!r}{_item(engine, root)}, on the event loop:\n{stack}")
    return lines


def _frames_of(awaited: object) -> Iterator[FrameType]:
    """The frames of a coroutine and of what it awaits, outermost first."""
    while awaited is not None:
        for kind in ("cr", "ag", "gi"):
            if isinstance(frame := getattr(awaited, f"{kind}_frame", None), FrameType):
                yield frame
                awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
                break
        else:
            return


def _work_of(engine: Engine, frame: FrameType | None) -> tuple[str, Root | None] | None:
    """The stage whose op this stack is in, and the item's root."""
    while frame is not None:
        # What a worker's loop has looked at last is no longer at work.
        if str(frame.f_globals.get("__name__")).startswith("spdl.pipeline._") and frame.f_code is not serve.__code__:
            names = frame.f_locals
            node = names.get("node", names.get("self"))
            if isinstance(node, Node) and node.engine is engine:
                # A worker's loop has the root at hand, others an attempt or a generator that belongs to one.
                holders = [names.get("attempt"), names.get("parked"), *names.get("hand", ())]
                roots = (getattr(holder, "root", None) for holder in holders)
                return node.name, names.get("root", next((root for root in roots if root is not None), None))
        frame = frame.f_back
    return None


def _item(engine: Engine, *roots: Root | None) -> str:
    known = [root for root in roots if root is not None]
    return f", {engine.lineage.describe(engine.lineage.gather(known))}" if known else ""
