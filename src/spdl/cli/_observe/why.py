"""`spdl why`: what limits a pipeline, and what comes of the remedy."""

from __future__ import annotations

import json
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from spdl.cli._common.console import FAILED, CommandError, Console
from spdl.cli._common.text import number, ratio
from spdl.cli._observe.chosen import name_of, of_all_ranks, of_one_job, rank_of
from spdl.cli._observe.top import verdict_json, watch_all
from spdl.observe import PageError, verdict, watch
from spdl.observe._trace.ask import ProcessRequest, RecordingError
from spdl.observe._verdict.verdict import KINDS
from spdl.observe._window.watch import Watched, window_of_all

if TYPE_CHECKING:
    import argparse

    from spdl.observe import ObservedPipeline, Verdict


# Buffers fill in this time, and what was begun with the former limits ends.
_SETTLES = 0.5
# The process answers when it writes its counters.
_ANSWERS_WITHIN = 10.0
# Fewer items say little about a rate.
_LEAST_ITEMS = 8


class TriedRemedy(NamedTuple):
    """Items per second before and with a remedy; no gain if there were too few, and an error if it was not tried."""

    seconds: float
    before: float = 0.0
    after: float = 0.0
    gain: float | None = None
    error: str = ""

    def sentence(self) -> str:
        if self.error:
            return f"Not tried: {self.error}."
        if self.gain is None:
            return f"Tried for {self.seconds:g} s, and put back: too few items came to compare rates."
        rates = f"{number(self.after)} items/s instead of {number(self.before)}"
        return f"Tried for {self.seconds:g} s, and put back: {ratio(self.gain)} as fast ({rates})."


def try_remedy(pipeline: ObservedPipeline, verdict: Verdict, seconds: float) -> TriedRemedy:
    """Set what a verdict recommends in the running pipeline, watch it for some seconds, and put it back.

    The process puts it back as well if this one is killed.
    """
    settings = verdict.settings
    if verdict.stage in pipeline.head.sources:
        return TriedRemedy(
            seconds, error="the remedy moves work out of the source, which takes a change of the program"
        )
    if "concurrency" not in settings or not settings.keys() <= {"concurrency", "num_threads"}:
        return TriedRemedy(seconds, error="the remedy does not only set the concurrency of a stage")
    limits = {
        "pipeline": pipeline.head.pipeline,
        "stage": verdict.stage,
        "concurrency": settings["concurrency"],
        "num_threads": settings.get("num_threads", settings["concurrency"]),
    }
    try:
        before, items_before = _rate(pipeline, seconds)
        with ProcessRequest(pipeline.head, pipeline.path.parent) as request:
            request.begin({"try": limits}, within=_ANSWERS_WITHIN, is_gone=lambda: pipeline.state() != "running")
            sleep(_SETTLES)
            after, items_after = _rate(pipeline, seconds)
            request.stop()
    except TimeoutError:
        return TriedRemedy(seconds, error=f"the process did not answer in {_ANSWERS_WITHIN:g} s")
    except (RecordingError, PageError) as error:
        return TriedRemedy(seconds, error=str(error))
    enough = min(items_before, items_after) >= _LEAST_ITEMS
    return TriedRemedy(seconds, before, after, after / before if enough else None)


def _rate(pipeline: ObservedPipeline, seconds: float) -> tuple[float, float]:
    """Return how many items the loop takes per second, and how many it took."""
    window = watch(pipeline, seconds)
    if pipeline.state() != "running":
        raise RecordingError("the pipeline has ended")
    return window.delivered, window.delivered * window.seconds


# The pipeline of the next epoch may take this many seconds longer to come and to be watched.
_NEXT_SECONDS = 1.0


def why(options: argparse.Namespace) -> int:
    """Say what limits the pipelines of a process, or of all ranks of a job. Return the greatest status of a verdict."""
    pipelines = of_one_job(options.pid)
    pids = {pipeline.head.pid for pipeline in pipelines}
    if options.pipeline is not None:
        pipelines = [pipeline for pipeline in pipelines if pipeline.head.pipeline == options.pipeline]
    # If the user named one, another is not the answer.
    longest = options.seconds + _NEXT_SECONDS if options.pipeline is None else 0.0
    seen = watch_all(pipelines, options.seconds, longest=longest)
    verdicts = [(watched.pipelines[-1], verdict(window_of_all(watched))) for watched in seen]
    of = {watched.pipelines[-1].path: watched for watched in seen}
    if not verdicts:
        which = "no pipeline" if options.pipeline is None else f"no pipeline {options.pipeline}"
        process = f"process {min(pids)}" if len(pids) == 1 else "no process of the job"
        raise CommandError(f"{process} has {which} that has begun.", exit_status=FAILED)
    tried = _tried(verdicts, options.trial_seconds) if options.attempt else None
    together = list[str]()
    if options.pid is None or len(pids) > 1:
        verdicts, together = of_all_ranks(verdicts)
    if options.json:
        found = [
            {**_as_json(of[pipeline.path], each), **({"tried": tried._asdict()} if tried else {})}
            for pipeline, each in verdicts
        ]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        console = Console()
        # Nobody has to be told which process it is who has named it, or has no other.
        is_known = pids == {options.pid} or (options.pid is None and len(pids) == 1)
        for pipeline, each in verdicts:
            whose = "" if is_known else name_of(pipeline)
            number = f"pipeline {pipeline.head.pipeline}" if len(verdicts) > len(pids) else ""
            prefix = ", ".join(filter(None, (whose, number)))
            console.print(f"{f'{prefix}: ' if prefix else ''}{_which(of[pipeline.path])}{each.sentence()}")
        if tried:
            console.print(tried.sentence())
        for line in together:
            console.print(line)
    return max(KINDS[each.kind] for _, each in verdicts)


def _tried(verdicts: list[tuple[ObservedPipeline, Verdict]], seconds: float) -> TriedRemedy:
    """Return the result of the remedy, if the user wants to try it, as is possible with one pipeline."""
    if len(verdicts) > 1:
        raise CommandError(f"--try: {len(verdicts)} pipelines run. Name one: PID and --pipeline N, see `spdl ps`")
    ((pipeline, verdict),) = verdicts
    return try_remedy(pipeline, verdict, seconds)


def _which(watched: Watched) -> str:
    """Return the remark on pipelines that do not simply run."""
    first, last = watched.pipelines[0], watched.pipelines[-1]
    if first is not last:
        return f"(Of pipelines {first.head.pipeline} to {last.head.pipeline}, which followed each other.) "
    state = last.state()
    return "" if state == "running" else f"(It {'was killed' if state == 'killed' else 'has ended'}.) "


def _as_json(watched: Watched, verdict: Verdict) -> dict[str, object]:
    pipeline = watched.pipelines[-1]
    return {
        "pid": pipeline.head.pid,
        "pipeline": pipeline.head.pipeline,
        "watched": [each.head.pipeline for each in watched.pipelines],
        "rank": rank_of(pipeline),
        "state": pipeline.state(),
        **verdict_json(verdict),
        "sentence": verdict.sentence(),
    }
