"""The page that `spdl advise` prints: the verdict, its evidence, what to do, and the lines of the job to change."""

from __future__ import annotations

import ast
import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.cli._advise.judge import ALIKE, LEAST_STEPS, Costs, LoaderVerdict, TriedWay
from spdl.cli._common.text import milliseconds, number, ratio, several, share
from spdl.observe._verdict.verdict import HARDLY_WAITS, WORTH

if TYPE_CHECKING:
    from spdl.cli._advise.measured import JobLoader, MeasuredJob


# The column of the second lines of the evidence, and the beginnings of lines to copy.
_EVIDENCE = 14
_TO_COPY = ("  - ", "  + ")

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
_NOTHING = (
    "No DataLoader of PyTorch was read. Either the job has another loader, or it ran a Python that takes no part in"
    " this (python -I or -E, or an environment cleared by the job). If it loads with SPDL, run `spdl why` while it"
    " runs: that says what limits it."
)


def page(measured: MeasuredJob, verdicts: list[LoaderVerdict], cores: float, width: int | None) -> str:
    """Return the page, where each rank may use `cores`. Lines to copy are not broken; without a width, no line is."""
    paragraphs = [headline(measured, verdicts)]
    for loader, verdict in zip(measured.loaders, verdicts, strict=True):
        paragraphs.append("\n".join([_call(loader), *_evidence(loader, verdict)]))
    if verdicts and (costs := verdicts[0].costs) is not None:
        paragraphs.append(_advice(measured.loaders[0], verdicts[0]))
        # Other work than the job's kept the cores from it.
        if costs.got < _MOST_BUSY and costs.used < _MOST_BUSY * cores:
            paragraphs.append("The machine was busy with other work, so these times are longer than usual.")
        if (best := verdicts[0].best) is not None and best.what != "more":
            paragraphs.append(_changes(measured.loaders[0], best))
    if len(measured.ranks) > 1:
        worst = max(measured.ranks, key=lambda rank: rank.share)
        name = "one of them" if worst.name is None else f"rank {worst.name}"
        waits = f"{name} waits most, {share(worst.share)} of its time"
        paragraphs.append(f"{len(measured.ranks)} processes read loaders; {waits}.")
    return "\n".join(_filled(line, width) for line in "\n\n".join(paragraphs).split("\n"))


def headline(measured: MeasuredJob, verdicts: list[LoaderVerdict]) -> str:
    if not verdicts:
        return _NOTHING
    verdict, loader = verdicts[0], measured.loaders[0]
    if verdict.costs is None and min(loader.steps, loader.waits) >= LEAST_STEPS:
        wait, step = loader.wait / loader.waits, loader.step / loader.steps
        return (
            f"The loop waits for data {share(wait / (wait + step))} of its time. For what is not known: worker"
            " processes that are killed cannot say what they did, as persistent ones are at the end of a job. Let it"
            " run for some seconds more. If it loads with SPDL, run `spdl why` while it runs."
        )
    if verdict.costs is None:
        return f"The job took too few batches to judge its loader: {loader.steps:,} steps were counted."
    part = f"The loop waits for data {share(verdict.share)} of its time"
    part += f" ({milliseconds(verdict.costs.wait)} of {milliseconds(verdict.costs.period)} a step)"
    limit = verdict.limit
    if limit.kind == "slow consumer":
        why = ": the loader is not the limit. Look at the step itself."
        if verdict.most_headspace is not None and verdict.headspace_measured:
            why = f", but the step is {ratio(verdict.most_headspace)} as fast while the workers rest."
        elif verdict.most_headspace is not None:
            has, of = milliseconds(verdict.costs.step_cpu), milliseconds(verdict.costs.step)
            one = f"the step has one for {has} of its {of}, and may wait for one otherwise"
            why = f", but the workers keep the cores in use: {one}."
        return f"{part}{why}"
    starts = (
        f"{share(verdict.start_share)} of all time goes to the beginning and the end of"
        f" {several(loader.epochs, 'iteration')}, when workers start and stop."
    )
    if limit.kind == "start":
        return f"{part}, {'but' if verdict.share < HARDLY_WAITS else 'and'} {starts}"
    limits = "" if limit.kind == "none" else f": the loader is the limit. {limit.name}"
    found = f"{part}{limits}. {limit.evidence} {_cause(loader, verdict, verdict.costs)}"
    return f"{found} Besides, {starts}" if verdict.starts else found


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
        f"measured on {several(loader.ahead_steps, 'step')} whose batches were already there"
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
    yield from _trial(loader, verdict)


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
    said = [_of_beginnings(loader, verdict)] if verdict.starts else []
    said += [_switch(loader, verdict), *_of_photos(verdict)]
    if loader.other_thread:
        said.append("A thread of the job reads this loader, so its waiting may not be the step's.")
    return " ".join(said)


def _of_beginnings(loader: JobLoader, verdict: LoaderVerdict) -> str:
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
        none = f"With this dataset, nothing tried is worth a change: the fastest is {ratio(fastest)} as fast ({least})."
        # What waits gains from more workers than there are cores, and all ways may have had as many as the job.
        waits = verdict.limit.kind == "I/O" and all(way.workers <= loader.workers for way in others if way.gain)
        untried = waits or verdict.limit.kind in _UNTRIED
        return f"{none}{more}{f' Not tried: {verdict.limit.remedy}' if untried else ''}"
    workers = f" with num_workers={best.workers}" if best.workers != loader.workers else ""
    reason = best.reason.partition("; workers=")[0]
    gain = f"tried{' for a short time' if best.is_bound else ''}, {_tried(best)} as fast"
    if best.what == "more":
        return f"Pass num_workers={best.workers}: {gain}."
    if best.what == "unproven thread":
        return (
            f'PyTorchDataLoader(..., workers="thread"){workers}: {gain}. Make sure first that threads may share the '
            f'dataset, which is not known: {reason}. Without workers="thread", its workers are processes.'
        )
    kind = "threads"
    if best.what == "process":
        kind = f"processes, as threads are not known to be safe: {reason}"
    return f"Switch to PyTorchDataLoader{workers}: {gain}. Its workers are {kind}.{_if_safe(verdict, best)}"


def _if_safe(verdict: LoaderVerdict, best: TriedWay) -> str:
    """Return a remark on threads that were faster than the processes that are recommended; may be empty."""
    unproven = [way for way in verdict.tried if way.what == "unproven thread" and way.is_faster]
    fastest = max(unproven, key=lambda way: way.gain, default=best)
    if fastest.gain <= ALIKE * best.gain:
        return ""
    workers = f" and num_workers={fastest.workers}" if fastest.workers != best.workers else ""
    return f' If threads may share the dataset, pass workers="thread"{workers}: tried, {_tried(fastest)} as fast.'


def _of_photos(verdict: LoaderVerdict) -> Iterator[str]:
    images = next((way for way in verdict.tried if way.what == "images" and way.gain), None)
    if images is not None:
        yield (
            f"ImageLoader in place of the dataset: tried, {_gain(images)} as fast with these photos, without what else"
            " the dataset does."
        )
    elif verdict.most in _OF_MEDIA:
        yield _FOR_PHOTOS


def _changes(loader: JobLoader, best: TriedWay) -> str:
    of = loader.description
    changes = find_changes(of["file"], of["line"])
    if not changes:
        return f"To switch, make the loader of {_shown(of['file'])}:{of['line']} a PyTorchDataLoader."
    lines = ["To switch, change"]
    for change in changes:
        lines += [f"  {_shown(of['file'])}:{change.line}", f"  - {change.old}", *(f"  + {new}" for new in change.new)]
    told = [
        *([f"num_workers={best.workers}"] if best.workers != loader.workers else []),
        *(['workers="thread"'] if best.what == "unproven thread" else []),
    ]
    if told:
        lines.append(f"and pass {' and '.join(told)} in line {of['line']}.")
    return "\n".join(lines)


def _shown(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def _filled(line: str, width: int | None) -> str:
    if width is None or line.startswith(_TO_COPY):
        return line
    following = _EVIDENCE * " " if line.startswith(" ") else ""
    return textwrap.fill(line, width, subsequent_indent=following, break_long_words=False, break_on_hyphens=False)


_NEW_IMPORT = "from spdl.dataloader import PyTorchDataLoader"


@dataclass(frozen=True)
class Change:
    """A change of one statement, from its first line to its last: `old` is in one line."""

    line: int
    last: int
    old: str
    new: tuple[str, ...]


def find_changes(file: str, line: int) -> list[Change]:
    """Return the changes that make the call on a line of a file use spdl's loader in place of PyTorch's.

    None if the file cannot be read, or if the call does not name PyTorch's `DataLoader`.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return []
    lines = text.splitlines()
    call = _called(tree, line)
    if call is None:
        return []
    if isinstance(call, ast.Attribute):
        old = lines[call.lineno - 1]
        new = old.replace(ast.unparse(call), "PyTorchDataLoader")
        place = _first_import(tree)
        added = Change(place, place, lines[place - 1], (_NEW_IMPORT, lines[place - 1]))
        return [added, Change(call.lineno, call.lineno, old, (new,))] if new != old else []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module not in (
            "torch.utils.data",
            "torch.utils.data.dataloader",
        ):
            continue
        for alias in node.names:
            if alias.name == "DataLoader" and (alias.asname or alias.name) == call.id:
                return [_without(node, alias, lines)]
    return []


def _called(tree: ast.Module, line: int) -> ast.Attribute | ast.Name | None:
    """Return the name `DataLoader`, under whatever name it is known, of the innermost call on a line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "DataLoader":
                found = node.func
            elif isinstance(node.func, ast.Name) and _is_imported(tree, node.func.id):
                return node.func
    return found


def _is_imported(tree: ast.Module, name: str) -> bool:
    return any(
        alias.name == "DataLoader" and (alias.asname or alias.name) == name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def _first_import(tree: ast.Module) -> int:
    return next(
        (
            node.lineno
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__"
        ),
        1,
    )


def _without(node: ast.ImportFrom, name: ast.alias, lines: list[str]) -> Change:
    """Return the change of an import that brings a name from spdl, and the others from where they came."""
    others = ast.ImportFrom(node.module, [alias for alias in node.names if alias is not name], node.level)
    indent = " " * node.col_offset
    new = f"{_NEW_IMPORT} as {name.asname or name.name}"
    statements = [ast.unparse(others)] if others.names else []
    end = node.end_lineno or node.lineno
    old = " ".join(part.strip() for part in lines[node.lineno - 1 : end])
    return Change(node.lineno, end, old, tuple(indent + statement for statement in [*statements, new]))
