"""`spdl stack`: what each thread of a process's pipelines is at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import Console
from spdl.cli._common.text import printable
from spdl.cli._observe.chosen import command_of, of_one_job, place_of, rank_of
from spdl.observe import PageError
from spdl.observe._stack import NoStacksError, ThreadStack, read_stacks, without_engine
from spdl.observe._window.seen import doing, thread_times
from spdl.pipeline._report.sample import Doing

if TYPE_CHECKING:
    import argparse

    from spdl.observe import Observation, ObservedPipeline, ThreadObservation

# The status where only what the page says could be shown.
NO_STACKS = 3

# So many calls of a thread are printed; JSON has all.
_MOST_FRAMES = 20
_MOST_FRAMES_OF_OTHERS = 8

_DOES = {
    Doing.RUNS: "; computes",
    Doing.WAITS_FOR_THREAD: "; waits for another thread",
    Doing.WAITS: "; waits",
    Doing.STOPPED: "; is stopped",
    Doing.GONE: "",
}


@dataclass(frozen=True)
class _Thread:
    """A thread of a pipeline: its row of the page, and its stack."""

    seen: ThreadObservation
    does: Doing
    stack: ThreadStack | None


@dataclass(frozen=True)
class _ProcessStacks:
    """A process whose pipelines are looked at.

    Attributes:
        pid: Its number.
        by: The tool that has read its stacks; empty if there are none.
        missing: The reason if there are none.
        found: Its pipelines, each with what its page says and its threads.
        others: The stacks of its other threads.
    """

    pid: int
    by: str
    missing: str
    found: Sequence[_Found]
    others: Sequence[ThreadStack]


def stack(options: argparse.Namespace) -> int:
    """Show which stage and item each thread of a process's pipelines is at, with its stack.

    Returns:
        0; or 3 if the stacks of a process cannot be had, and only what the page says is shown.

    Raises:
        CommandError: There is no such pipeline.
    """
    # Those of a rank stand together.
    pipelines = sorted(of_one_job(options.pid), key=place_of)
    processes = [_look(pid, list(own)) for pid, own in groupby(pipelines, key=lambda each: each.head.pid)]
    if options.json:
        found = [_as_json(process) for process in processes]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        for process in processes:
            _print(Console(), process)
    return NO_STACKS if any(process.missing for process in processes) else 0


def _look(pid: int, pipelines: Sequence[ObservedPipeline]) -> _ProcessStacks:
    by, missing, stacks = "", "", list[ThreadStack]()
    # This comes first: reading stacks stops the threads for a moment, and threads that go on then seem to compute.
    does = {thread: doing(pid, thread) for thread in thread_times(pid)}
    if all(pipeline.state() == "killed" for pipeline in pipelines):
        missing = "the process was killed; this is what its threads had begun before"
    else:
        try:
            by, stacks = read_stacks(pid)
        except NoStacksError as error:
            missing = str(error)
    found = [(pipeline, *_threads_of(pipeline, stacks, does)) for pipeline in pipelines]
    own = {id(thread.stack) for _, _, threads in found for thread in threads}
    return _ProcessStacks(pid, by, missing, found, [each for each in stacks if id(each) not in own])


_Found = tuple["ObservedPipeline", "Observation | None", "Sequence[_Thread]"]


def _threads_of(
    pipeline: ObservedPipeline, stacks: Iterable[ThreadStack], does: Mapping[int, Doing]
) -> tuple[Observation | None, list[_Thread]]:
    try:
        seen = pipeline.observe()
    except PageError:
        # It has only begun.
        return None, []
    by_number = {each.thread: each for each in stacks if each.thread}
    by_identity = {each.identity: each for each in stacks if each.identity}
    threads = [
        _Thread(
            each,
            does.get(each.thread, Doing.GONE),
            by_number.get(each.thread) or by_identity.get(each.identity),
        )
        for each in seen.threads
    ]
    # The oldest op first.
    return seen, sorted(threads, key=lambda each: (each.seen.part is None, each.seen.since))


# ---- as text ----


def _print(console: Console, process: _ProcessStacks) -> None:
    for pipeline, seen, threads in process.found:
        rank = rank_of(pipeline)
        console.print(
            f"{command_of(pipeline)} (pid {pipeline.head.pid}{f', rank {rank}' if rank else ''}), "
            f"pipeline {pipeline.head.pipeline}"
        )
        if seen is None:
            console.print("  It has only begun.")
        busy = [each for each in threads if each.seen.part is not None]
        for thread in busy:
            console.print(f"  {_what(pipeline, thread, _now(pipeline, seen))}")
            _print_frames(console, thread.stack, _MOST_FRAMES)
        idle = len(threads) - len(busy)
        if idle:
            console.print(f"  {idle} {'thread waits' if idle == 1 else 'threads wait'} for work")
    if process.others:
        console.print("Other threads")
    for stack in process.others:
        console.print(f"  {stack.name or 'thread'} ({stack.thread or hex(stack.identity)})")
        _print_frames(console, stack, _MOST_FRAMES_OF_OTHERS)
    if process.missing:
        console.print(f"No stacks: {process.missing}.")
    elif process.by:
        console.print(f"Stacks by {'py-spy' if process.by == 'py-spy' else 'a signal to the process'}.")


def _print_frames(console: Console, stack: ThreadStack | None, most: int) -> None:
    if stack is None:
        return
    frames = without_engine(stack.frames) or stack.frames
    for frame in frames[:most]:
        console.print(f"      {frame.function}  {frame.file}:{frame.line or '?'}")
    if len(frames) > most:
        console.print(f"      ... {len(frames) - most} more")


def _what(pipeline: ObservedPipeline, thread: _Thread, now: float) -> str:
    seen = thread.seen
    item = _item(pipeline, seen)
    seconds = max(0.0, now - seen.since)
    return printable(
        f"{_part(pipeline, seen)}: {item + ', ' if item else ''}for {seconds:.3g} s{_DOES[thread.does]} "
        f"(thread {seen.thread})"
    )


def _now(pipeline: ObservedPipeline, seen: Observation | None) -> float:
    # Of one that was killed it is not known how long it ran after that.
    return seen.now if seen is not None and pipeline.state() == "killed" else perf_counter()


def _part(pipeline: ObservedPipeline, seen: ThreadObservation) -> str:
    head = pipeline.head
    if seen.part is None:
        return ""
    first = len(head.sources)
    if seen.part < first:
        return f"{head.sources[seen.part]}, next()"
    index = seen.part - first
    return head.stages[index].name if index < len(head.stages) else "?"


def _item(pipeline: ObservedPipeline, seen: ThreadObservation) -> str:
    if seen.position is None or seen.source is None:
        return ""
    sources = pipeline.head.sources
    of = f" of {sources[seen.source]!r}" if len(sources) > 1 and seen.source < len(sources) else ""
    return f"{'item' if seen.is_whole else 'made of items from'} {seen.position:,}{of}"


# ---- as JSON ----


def _as_json(process: _ProcessStacks) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "stacks_by": process.by or None,
        "missing": process.missing or None,
        "pipelines": [
            {
                "pipeline": pipeline.head.pipeline,
                "rank": rank_of(pipeline),
                "command": command_of(pipeline),
                "state": pipeline.state(),
                "threads": [_thread_json(pipeline, each, _now(pipeline, seen)) for each in threads],
            }
            for pipeline, seen, threads in process.found
        ],
        "others": [{"thread": each.thread, "name": each.name, "frames": _frames(each)} for each in process.others],
    }


def _thread_json(pipeline: ObservedPipeline, thread: _Thread, now: float) -> dict[str, Any]:
    seen = thread.seen
    sources = pipeline.head.sources
    is_pull = seen.part is not None and seen.part < len(sources)
    return {
        "thread": seen.thread,
        "part": None if seen.part is None else "source" if is_pull else "stage",
        "name": _part(pipeline, seen).removesuffix(", next()") or None,
        "position": seen.position,
        "source": None if seen.source is None or seen.source >= len(sources) else sources[seen.source],
        "is_whole": seen.is_whole,
        "seconds": max(0.0, now - seen.since),
        "does": thread.does.value,
        "frames": None if thread.stack is None else _frames(thread.stack),
    }


def _frames(stack: ThreadStack) -> list[dict[str, Any]]:
    return [frame._asdict() for frame in stack.frames]
