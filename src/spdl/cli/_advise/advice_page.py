"""The page that `spdl advise` prints: the verdict, its evidence, and what to do."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spdl.cli._advise.call_lines import find_changes
from spdl.cli._advise.judge import LEAST_STEPS, Costs, LoaderVerdict, TriedWay
from spdl.cli._common.text import milliseconds, number, ratio, several, share
from spdl.observe._verdict.verdict import HARDLY_WAITS, WORTH

if TYPE_CHECKING:
    from spdl.cli._advise.measured import JobLoader, MeasuredJob


# The column of the second lines of the evidence.
_EVIDENCE = 14

# The work that makers of batches spend the most time on.
_CAUSES = {
    "reading": "reading files",
    "decoding": "decoding",
    "transforming": "resizing, cropping and other transforms",
    "waiting": "sleeping and waiting for locks",
    "other": "the dataset's own code",
    "collating": "collating",
}
_OF_MEDIA = ("decoding", "transforming")
# The kinds of verdicts whose remedies change other things than what is tried.
_UNTRIED = ("held back by order", "oversubscription")
_FOR_PHOTOS = "For photos, ImageLoader decodes and resizes with less CPU time than most libraries."
_MOST_BUSY = 0.75
# A trial whose rate differs from the job's by this factor is not like the job.
_UNLIKE = 1.5
_BUSY = "The machine was busy with other work, so these times are longer than usual."
_NOTHING = (
    "No DataLoader of PyTorch was read. Either the job has another loader, or it ran a Python that takes no part in"
    " this (python -I or -E, or an environment cleared by the job). Of pipelines and loaders of spdl, `spdl why` tells"
    " while they run."
)


def page(measured: MeasuredJob, verdicts: list[LoaderVerdict], cores: float, width: int | None) -> str:
    """Return the page.

    Args:
        measured: The measurements of the job.
        verdicts: The verdict on each of its loaders.
        cores: How many cores each of its ranks may use.
        width: How many characters a line holds. Lines to copy are not broken. With None, nothing is.
    """
    paragraphs = [_filled(headline(measured, verdicts), width)]
    for loader, verdict in zip(measured.loaders, verdicts, strict=True):
        lines = [_filled(line, width, indent=_EVIDENCE) for line in _evidence(loader, verdict)]
        paragraphs.append("\n".join([_filled(_call(loader), width, indent=_EVIDENCE), *lines]))
    if verdicts and verdicts[0].costs is not None:
        paragraphs.append(_filled(_advice(measured.loaders[0], verdicts[0]), width))
        if _is_busy(verdicts[0].costs, cores):
            paragraphs.append(_filled(_BUSY, width))
        if (best := verdicts[0].best) is not None and best.what != "more":
            paragraphs += _changes(measured.loaders[0], best, width)
    if len(measured.ranks) > 1:
        paragraphs.append(_ranks(measured, width))
    return "\n\n".join(paragraphs)


def _is_busy(costs: Costs, cores: float) -> bool:
    """Return whether other work than the job's kept the cores from it."""
    return costs.got < _MOST_BUSY and costs.used < _MOST_BUSY * cores


def headline(measured: MeasuredJob, verdicts: list[LoaderVerdict]) -> str:
    """Return the verdict on the whole job in one sentence or two."""
    if not verdicts:
        return _NOTHING
    verdict, loader = verdicts[0], measured.loaders[0]
    if verdict.costs is None and min(loader.steps, loader.waits) >= LEAST_STEPS:
        wait, step = loader.wait / loader.waits, loader.step / loader.steps
        return (
            f"The loop waits for data {share(wait / (wait + step))} of its time. For what is not known: worker"
            " processes that are killed cannot say what they did, as persistent ones are at the end of a job. Let it"
            " run for some seconds more. Of threads of spdl, `spdl why` tells while the job runs."
        )
    if verdict.costs is None:
        return f"The job took too few batches to judge its loader: {loader.steps:,} steps were counted."
    part = f"The loop waits for data {share(verdict.share)} of its time"
    part += f" ({milliseconds(verdict.costs.wait)} of {milliseconds(verdict.costs.period)} a step)"
    limit = verdict.limit
    if limit.kind == "slow consumer":
        return f"{part}{_of_step(verdict, verdict.costs)}"
    starts = (
        f"{share(verdict.start_share)} of all time goes to the beginning and the end of"
        f" {several(loader.epochs, 'iteration')}, when workers start and stop."
    )
    if limit.kind == "start":
        return f"{part}, {'but' if verdict.share < HARDLY_WAITS else 'and'} {starts}"
    limits = "" if limit.kind == "none" else f": the loader is the limit. {limit.name}"
    found = f"{part}{limits}. {limit.evidence} {_cause(loader, verdict, verdict.costs)}"
    return f"{found} Besides, {starts}" if verdict.starts else found


def _of_step(verdict: LoaderVerdict, costs: Costs) -> str:
    if verdict.most_headspace is None:
        return ": the loader is not the limit. Look at the step itself."
    if verdict.headspace_measured:
        return f", but the step is {ratio(verdict.most_headspace)} as fast while the workers rest."
    return (
        f", but the workers keep the cores in use: the step has one for {milliseconds(costs.step_cpu)} of its"
        f" {milliseconds(costs.step)}, and may wait for one otherwise."
    )


def _cause(loader: JobLoader, verdict: LoaderVerdict, costs: Costs) -> str:
    if verdict.most != "pickling":
        who = "Its workers spend" if loader.workers else "The loop's process makes the batches itself, and spends"
        return f"{who} the most time on {_CAUSES[verdict.most]}."
    if max(1, loader.workers) * costs.parts.get("receiving", 0.0) > costs.parts["pickling"]:
        return "What it waits for most is its own process, which unpickles the batches of the workers."
    return "Its workers spend the most time on pickling batches."


def _call(loader: JobLoader) -> str:
    of = loader.description
    arguments = f"batch_size={of['batch_size']}, num_workers={of['num_workers']}"
    by = " (made there by a library)" if of["by_library"] else ""
    name = of["class"].rpartition(".")[2]
    return f"{_shown(of['file'])}:{of['line']}{by}: {name}({arguments})"


def _evidence(loader: JobLoader, verdict: LoaderVerdict) -> Iterator[str]:
    yield f"  steps       {loader.steps:,} were measured, in {several(loader.epochs, 'iteration')}"
    if verdict.costs is None:
        return
    costs = verdict.costs
    yield (
        f"  a step      {milliseconds(costs.period)}: {milliseconds(costs.wait)} waiting for data,"
        f" {milliseconds(costs.step)} otherwise"
    )
    of_all = f": {share(verdict.start_share)} of all time" if verdict.starts else ""
    yield f"  beginnings  {milliseconds(loader.start / loader.epochs)} each, for the first batch{of_all}"
    who = several(loader.workers, "worker") if loader.workers else "the loop's process"
    total = sum(seconds for kind, seconds in costs.parts.items() if kind != "receiving")
    spent = [
        f"{kind} {share(seconds / total)}"
        for kind, seconds in costs.parts.items()
        if kind != "receiving" and seconds >= 0.005 * total
    ]
    yield f"  making      {who}: {', '.join(spent)}; {milliseconds(total)} a batch"
    if "receiving" in costs.parts:
        receiving = costs.parts["receiving"]
        part = share(min(1.0, receiving / costs.wait)) if costs.wait else "none"
        yield f"  receiving   {milliseconds(receiving)} of CPU a batch in the loop's process: {part} of the waiting"
    how = (
        f"measured on {several(loader.ahead_steps, 'step')} whose batches were there before"
        if verdict.headspace_measured
        else "estimated: the same steps without the waiting"
    )
    of_steps = " of the steps" if verdict.starts else ""
    yield f"  headspace   {ratio(verdict.headspace)}{of_steps} ({how})"
    if verdict.most_headspace is not None and not verdict.headspace_measured:
        yield (
            f"              up to {ratio(verdict.most_headspace)} if all that the step waits for are the cores that the"
            " workers use"
        )
    if verdict.headspace_range is not None:
        low, high = map(ratio, verdict.headspace_range)
        yield f"              between {low} and {high}, by the spread of these steps"
        yield from _difference(verdict, costs, *verdict.headspace_range)
    yield from _trial(loader, verdict)


def _difference(verdict: LoaderVerdict, costs: Costs, low: float, high: float) -> Iterator[str]:
    """Yield what explains that the headspace is another one than the share of waiting says, if it is by much."""
    alone, waiting = costs.step_alone or costs.step, verdict.without_waiting
    steps = f"these steps took {milliseconds(alone)} instead of {milliseconds(costs.step)}"
    if low > waiting * WORTH:
        yield (
            f"              more than {ratio(waiting)}, as without the waiting: the workers rested meanwhile, and"
            f" {steps}"
        )
    elif high * WORTH < waiting:
        yield (
            f"              less than {ratio(waiting)}, as without the waiting: {steps}, so a part of their work goes"
            " on while the loop waits"
        )


def _trial(loader: JobLoader, verdict: LoaderVerdict) -> Iterator[str]:
    if not verdict.tried:
        return
    with_starts = verdict.starts and not loader.keeps_workers
    of = " for iterations as long as the job's" if with_starts else ""
    yield (
        f"  tried       with the job's items and a stand-in for its step, {loader.trial['seconds']:g} s each{of}, while"
        " the job stood still:"
    )
    for way in verdict.tried:
        if way.error:
            yield f"              {_name(way)}: {way.error}"
            continue
        if (
            way.what == "now"
            and verdict.costs is not None
            and not 1 / _UNLIKE < way.per_second * verdict.costs.period < _UNLIKE
        ):
            yield (
                f"              as it is: {number(way.per_second)} steps/s, and {number(1 / verdict.costs.period)} in"
                " the job: the turns were too short for what it waits for, or another part of it takes the time, so"
                " the gains may be others"
            )
            continue
        begins = f", first batch after {milliseconds(way.start)}" if with_starts else ""
        gain = "" if way.what == "now" or not way.gain else f": {_gain(way)}"
        yield f"              {_name(way)}: {number(way.per_second)} steps/s{begins}{gain}"


def _tried(way: TriedWay) -> str:
    return f"{'at least ' if way.is_bound else ''}{ratio(way.gain)}"


def _gain(way: TriedWay) -> str:
    return f"{_tried(way)} ({ratio(way.least_gain)} to {ratio(way.most_gain)})"


def _name(way: TriedWay) -> str:
    if way.what == "now":
        return "as it is"
    if way.what == "more":
        return f"DataLoader, {several(way.workers, 'worker')}"
    if way.what == "images":
        return f"ImageLoader, {several(way.workers, 'thread')}, {way.reason}, without the dataset's other work"
    workers = several(way.workers, "process" if way.what == "process" else "thread")
    return f"PyTorchDataLoader, {workers}{' (not known to be safe)' if way.what == 'unproven thread' else ''}"


def _advice(loader: JobLoader, verdict: LoaderVerdict) -> str:
    if verdict.limit.kind == "slow consumer" and verdict.most_headspace is not None:
        return (
            f"A loader that needs less CPU time would gain from {ratio(verdict.without_waiting)} to"
            f" {ratio(verdict.most_headspace)}: which of it, spdl.dataloader.CacheDataLoader measures, which repeats"
            f" batches that are there already. {_FOR_PHOTOS}"
        )
    if verdict.limit.kind == "slow consumer":
        return f"Another loader would gain {ratio(verdict.headspace)} at most, so switching is not worth it."
    said = [
        *([_of_beginnings(loader, verdict)] if verdict.starts else []),
        _switch(loader, verdict),
        *_of_photos(verdict),
        *(
            ["A thread of the job reads this loader, so its waiting may not be the step's."]
            if loader.other_thread
            else []
        ),
    ]
    return " ".join(said)


def _of_beginnings(loader: JobLoader, verdict: LoaderVerdict) -> str:
    """Return what helps against long beginnings, except threads."""
    bound = verdict.keeping_bound
    if bound is None:
        kept = "they are kept already" if loader.keeps_workers else "there is no other one"
        return (
            f"Keeping the workers from one iteration to the next changes nothing here: {kept}. The longer iterations"
            " are, the smaller is that part of the time."
        )
    if bound < WORTH:
        return f"Keeping the workers, by persistent_workers=True, gains little ({ratio(bound)} at most)."
    how = "Make the loader once for all iterations and pass" if verdict.anew else "Pass"
    return (
        f"{how} persistent_workers=True, which keeps the workers from one iteration to the next: {ratio(bound)} as fast"
        " at most. Workers that stay do not see what the job changes in the dataset."
    )


def _switch(loader: JobLoader, verdict: LoaderVerdict) -> str:
    """Return which of the ways that were tried is worth a change, or what to try."""
    best = verdict.best
    if not verdict.tried:
        why = loader.trial.get("error", "")
        since = f" ({why})" if why else ""
        return (
            f"Nothing was tried{since}, so the gain of a change is not known. It is the headspace at most."
            f" {verdict.limit.remedy} Or try PyTorchDataLoader of spdl.dataloader."
        )
    if best is None:
        others = [way for way in verdict.tried if way.what not in ("now", "images")]
        fastest = max((way.gain for way in others), default=0.0)
        missing = loader.trial.get("missing", "")
        more = f" PyTorchDataLoader was not: {missing}." if missing else ""
        if not fastest:
            return f"Nothing else could be tried.{more}"
        least = f"{ratio(WORTH)} would be" if fastest < WORTH else "to keep the workers may gain as much"
        if fastest >= WORTH and not any(way.is_faster for way in others if way.gain >= WORTH):
            least = "but not in every turn"
        none = f"None of what was tried is worth a change: the fastest is {ratio(fastest)} as fast ({least})."
        return f"{none}{more}{_untried(verdict)}"
    workers = f" with num_workers={best.workers}" if best.workers != loader.workers else ""
    gain = f"tried{' for a short time' if best.is_bound else ''}, {_tried(best)} as fast"
    if best.what == "more":
        return f"Pass num_workers={best.workers}: {gain}."
    if best.what == "unproven thread":
        return (
            f'PyTorchDataLoader(..., workers="thread"){workers}: {gain}. It keeps processes unless it is told, as '
            f"threads are not known to be safe here: {_reason(best)}. Make sure of that first."
        )
    kind = "threads" if best.what == "thread" else f"processes, as threads are not known to be safe: {_reason(best)}"
    return f"Switch to PyTorchDataLoader{workers}: {gain}. Its workers are {kind}."


def _untried(verdict: LoaderVerdict) -> str:
    """Return the remedy of the verdict, if it is no other loader or number of workers."""
    return f" Not tried: {verdict.limit.remedy}" if verdict.limit.kind in _UNTRIED else ""


def _of_photos(verdict: LoaderVerdict) -> Iterator[str]:
    """Yield what `ImageLoader` does with the job's photos, or that it is there."""
    images = next((way for way in verdict.tried if way.what == "images" and way.gain), None)
    if images is None:
        yield from [_FOR_PHOTOS] if verdict.most in _OF_MEDIA else []
    elif images.gain < WORTH:
        yield f"ImageLoader gains little here: tried, {_tried(images)} as fast with these photos."
    elif images.is_faster:
        yield (
            f"ImageLoader in place of the dataset: tried, {_tried(images)} as fast with these photos, without what else"
            " the dataset does."
        )
    else:
        yield f"ImageLoader, with these photos, was not faster in every turn: tried, {_gain(images)}."


def _reason(way: TriedWay) -> str:
    return way.reason.partition("; workers=")[0]


def _changes(loader: JobLoader, best: TriedWay, width: int | None) -> list[str]:
    of = loader.description
    changes = find_changes(of["file"], of["line"])
    if not changes:
        return [_filled(f"To switch, make the loader of {_shown(of['file'])}:{of['line']} a PyTorchDataLoader.", width)]
    lines = ["To switch, change"]
    for change in changes:
        lines += [f"  {_shown(of['file'])}:{change.line}", f"  - {change.old}", *(f"  + {new}" for new in change.new)]
    told = [
        *([f"num_workers={best.workers}"] if best.workers != loader.workers else []),
        *(['workers="thread"'] if best.what == "unproven thread" else []),
    ]
    if told:
        lines.append(f"and pass {' and '.join(told)} in line {of['line']}.")
    return ["\n".join(lines)]


def _ranks(measured: MeasuredJob, width: int | None) -> str:
    worst = max(measured.ranks, key=lambda rank: rank.share)
    name = "one of them" if worst.name is None else f"rank {worst.name}"
    return _filled(
        f"{len(measured.ranks)} processes read loaders; {name} waits most, {share(worst.share)} of its time.",
        width,
    )


def _shown(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def _filled(text: str, width: int | None, indent: int = 0) -> str:
    if width is None:
        return text
    following = " " * indent
    return "\n".join(
        textwrap.wrap(text, width, subsequent_indent=following, break_long_words=False, break_on_hyphens=False)
    )
