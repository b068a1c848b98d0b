"""`spdl stack`: what each thread of a process's pipelines is at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import Console
from spdl.cli._observe.chosen import command_of, of_one_job, place_of, rank_of
from spdl.observe import PageError
from spdl.observe._stack import Frame, NoStacksError, ThreadStack, read_stacks, without_engine
from spdl.observe._window.seen import doing, thread_times
from spdl.pipeline._report.sample import Doing

if TYPE_CHECKING:
    import argparse

    from spdl.observe import ObservedPipeline, ThreadObservation
    from spdl.pipeline._report.statistics import PageHead

# The status where only what the page says could be shown.
NO_STACKS = 3

# So many calls of a thread are printed; JSON has all.
_MOST_FRAMES = 20
_MOST_FRAMES_OF_OTHERS = 8

_DOES = {
    Doing.RUNS.value: "; computes",
    Doing.WAITS_FOR_THREAD.value: "; waits for another thread",
    Doing.WAITS.value: "; waits",
    Doing.STOPPED.value: "; is stopped",
    Doing.GONE.value: "",
}


def stack(options: argparse.Namespace) -> int:
    """Show which stage and item each thread of a process's pipelines is at. Without stacks, the status is 3."""
    # Those of a rank stand together.
    pipelines = sorted(of_one_job(options.pid), key=place_of)
    processes = [_look(pid, list(own)) for pid, own in groupby(pipelines, key=lambda each: each.head.pid)]
    if options.json:
        print(json.dumps(processes[0] if len(processes) == 1 else processes, indent=2))
    else:
        console = Console()
        for process in processes:
            for line in _lines(process):
                console.print(line)
    return NO_STACKS if any(process["missing"] for process in processes) else 0


def _look(pid: int, pipelines: Sequence[ObservedPipeline]) -> dict[str, Any]:
    """Return what is known of a process, as JSON has it."""
    by: str | None = None
    missing: str | None = None
    stacks = list[ThreadStack]()
    # This comes first: reading stacks stops the threads for a moment, and threads that go on then seem to compute.
    does = {thread: doing(pid, thread) for thread in thread_times(pid)}
    if all(pipeline.state() == "killed" for pipeline in pipelines):
        missing = "the process was killed; this is what its threads had begun before"
    else:
        try:
            by, stacks = read_stacks(pid)
        except NoStacksError as error:
            missing = str(error)
    left = {id(each): each for each in stacks}
    found = []
    for pipeline in pipelines:
        threads = list[dict[str, Any]]()
        with suppress(PageError):  # It has only begun.
            seen = pipeline.observe()
            # Of one that was killed it is not known how long it ran after that.
            now = seen.now if pipeline.state() == "killed" else perf_counter()
            # The oldest op first.
            for thread in sorted(seen.threads, key=lambda each: (each.part is None, each.since)):
                its = _stack_of(thread, stacks)
                left.pop(id(its), None)
                threads.append(
                    {
                        **_at(pipeline.head, thread),
                        "seconds": max(0.0, now - thread.since),
                        "does": does.get(thread.thread, Doing.GONE).value,
                        "frames": None if its is None else _frames(its),
                    }
                )
        found.append(
            {
                "pipeline": pipeline.head.pipeline,
                "rank": rank_of(pipeline),
                "command": command_of(pipeline),
                "state": pipeline.state(),
                "threads": threads,
            }
        )
    others = [{"thread": each.thread, "name": each.name, "frames": _frames(each)} for each in left.values()]
    return {"pid": pid, "stacks_by": by, "missing": missing, "pipelines": found, "others": others}


def _stack_of(thread: ThreadObservation, stacks: Sequence[ThreadStack]) -> ThreadStack | None:
    by_number = (each for each in stacks if each.thread and each.thread == thread.thread)
    by_identity = (each for each in stacks if each.identity and each.identity == thread.identity)
    return next(by_number, None) or next(by_identity, None)


def _frames(stack: ThreadStack) -> list[dict[str, Any]]:
    return [frame._asdict() for frame in stack.frames]


def _at(head: PageHead, thread: ThreadObservation) -> dict[str, Any]:
    """Return the part of the pipeline that a thread is in, and its item."""
    names = [*head.sources, *(stage.name for stage in head.stages)]
    part, name = thread.part, None
    if part is not None:
        name = names[part] if part < len(names) else "?"
    source = item = None
    if thread.position is not None and thread.source is not None:
        source = head.sources[thread.source] if thread.source < len(head.sources) else None
        of = f" of {source!r}" if source is not None and len(head.sources) > 1 else ""
        item = f"{'item' if thread.is_whole else 'made of items from'} {thread.position:,}{of}"
    return {
        "thread": thread.thread,
        "part": None if part is None else "source" if part < len(head.sources) else "stage",
        "name": name,
        "position": thread.position,
        "source": source,
        "is_whole": thread.is_whole,
        "item": item,
    }


def _lines(process: Mapping[str, Any]) -> Iterator[str]:
    """Yield what `_look` has found in words."""
    for pipeline in process["pipelines"]:
        rank = f", rank {pipeline['rank']}" if pipeline["rank"] else ""
        yield f"{pipeline['command']} (pid {process['pid']}{rank}), pipeline {pipeline['pipeline']}"
        if not pipeline["threads"]:
            yield "  It has only begun."
        busy = [thread for thread in pipeline["threads"] if thread["part"]]
        for thread in busy:
            where = f"{thread['name']}, next()" if thread["part"] == "source" else thread["name"]
            item = f"{thread['item']}, " if thread["item"] else ""
            does = _DOES[thread["does"]]
            yield f"  {where}: {item}for {thread['seconds']:.3g} s{does} (thread {thread['thread']})"
            yield from _calls(thread["frames"] or (), _MOST_FRAMES)
        idle = len(pipeline["threads"]) - len(busy)
        if idle:
            yield f"  {idle} {'thread waits' if idle == 1 else 'threads wait'} for work"
    if process["others"]:
        yield "Other threads"
    for thread in process["others"]:
        yield f"  {thread['name'] or 'thread'}{f' ({number})' if (number := thread['thread']) else ''}"
        yield from _calls(thread["frames"], _MOST_FRAMES_OF_OTHERS)
    if process["missing"]:
        yield f"No stacks: {process['missing']}."
    else:
        yield f"Stacks by {'py-spy' if process['stacks_by'] == 'py-spy' else 'a signal to the process'}."


def _calls(known: Sequence[dict[str, Any]], most: int) -> Iterator[str]:
    every = tuple(Frame(**each) for each in known)
    frames = without_engine(every) or every
    for frame in frames[:most]:
        yield f"      {frame.function}  {frame.file}:{frame.line or '?'}"
    if len(frames) > most:
        yield f"      ... {len(frames) - most} more"
