"""Gives a verdict in the words of the ready-made loader that runs the pipeline: its arguments, and no stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.observe._verdict.saturated import IF_IO, MORE_SLOTS, OWN_THREADS
from spdl.observe._verdict.verdict import Verdict, duration, watch_longer

if TYPE_CHECKING:
    from spdl.observe._window.window import StageWindow, Window
    from spdl.pipeline._report.page import LoaderArguments, StageArguments


# So many threads may be worth it for what each of them works on at once: more files are seldom read faster.
_MOST_READERS = 4


def in_words_of_loader(verdict: Verdict, window: Window, loader: LoaderArguments) -> Verdict:
    """Return the verdict with a remedy that the loader's user can follow, by the arguments that he may change."""
    if about_all := _ABOUT_ALL.get(verdict.kind):
        return about_all(verdict, window, loader)
    stage, about_stage = _stage_of(verdict, window), _ABOUT_STAGE.get(verdict.kind)
    # For stages that only fail, or have just begun, no argument is a remedy.
    if about_stage is None or stage is None or stage.arguments is None or not stage.seconds:
        return verdict
    return about_stage(_Case(verdict, window, loader, stage, stage.arguments))


class _Case(NamedTuple):
    verdict: Verdict
    window: Window
    loader: LoaderArguments
    stage: StageWindow
    arguments: StageArguments


def _stage_of(verdict: Verdict, window: Window) -> StageWindow | None:
    """Return the stage that a verdict names. If there are two of that name, the busier one is meant."""
    named = [stage for stage in window.stages if stage.name == verdict.stage]
    return max(named, key=lambda stage: stage.occupancy, default=None)


def _give(loader: LoaderArguments, *arguments: str) -> str:
    return f"Give {loader.loader} {' and '.join(f'`{argument}`' for argument in arguments)}"


def _set(verdict: Verdict, remedy: str, settings: Mapping[str, int], gain: float | None) -> Verdict:
    return replace(verdict, remedy=remedy, settings=settings, bound=gain)


def _more(its: _Case) -> Verdict:
    verdict, window, loader, stage, arguments = its
    name, gain = arguments.several, verdict.bound
    if verdict.kind == "I/O" and not verdict.settings:
        # It waits for threads that no stage runs.
        more = f"try a larger `{name}`" if name else arguments.otherwise
        remedy = (
            "`spdl stack` shows the line that they wait in. If the other threads wait for a disk or the network: "
            f"{more.rstrip('.')}. If they are a pool, give it more workers."
        )
        return replace(verdict, remedy=remedy)
    if verdict.kind == "CPU" and not verdict.settings:
        return replace(verdict, remedy=_computing(its))
    if not name or not verdict.settings:
        return _set(verdict, arguments.otherwise, {}, None)
    # One argument sets the slots of each stage and the threads for all of them.
    wanted = max(verdict.settings.values())
    cores = max(1, round(window.cores))
    if arguments.most:
        if stage.concurrency >= arguments.most:
            return _at_the_most(verdict, loader, arguments, cores)
        if gain is not None:
            gain = min(gain, arguments.most / stage.concurrency)
        # More threads than that share what each of them works on, so they are for what computes alone.
        wanted = min(wanted, max(arguments.most, cores) if verdict.kind == "CPU" else arguments.most)
    if_free = ", if its functions release the GIL" if verdict.kind == "CPU" and not stage.processes else ""
    remedy = f"{_give(loader, f'{name}={wanted}')}{if_free}. {arguments.note}".rstrip()
    return _set(verdict, remedy, {name: wanted}, gain)


def _computing(its: _Case) -> str:
    verdict, arguments = its.verdict, its.arguments
    if verdict.remedy.startswith(OWN_THREADS):
        other = f"try a larger `{arguments.several}`" if arguments.several else arguments.otherwise.rstrip(".")
        return verdict.remedy.replace(MORE_SLOTS, other)
    if verdict.bound is None and not its.stage.processes:
        # Whether its functions hold the GIL is the question.
        return _about_gil(its.loader, arguments)
    return f"Compute less for each {arguments.unit}, or give it more cores: they are all in use."


def _unclear(its: _Case) -> Verdict:
    if not its.verdict.settings:
        return its.verdict
    found = _more(its._replace(verdict=replace(its.verdict, kind="I/O")))
    return replace(found, kind="unclear", remedy=f"{watch_longer(its.window)} {IF_IO}{found.remedy}")


def _about_gil(loader: LoaderArguments, arguments: StageArguments) -> str:
    instead = f"{_give(loader, arguments.processes)}" if arguments.processes else arguments.in_place_of_processes
    remedy = f"If they hold the GIL, more threads gain little: call a library that releases it. {instead}"
    return remedy.rstrip(" .") + "."


def _at_the_most(verdict: Verdict, loader: LoaderArguments, arguments: StageArguments, cores: int) -> Verdict:
    """Return the verdict on a stage that works on as much at once as it ever does. Its gain is unknown."""
    name, value = arguments.several, arguments.value
    units = f"{arguments.unit}es" if arguments.unit.endswith("ch") else f"{arguments.unit}s"
    most = f"It works on {arguments.most} {units} at once at most."
    # Threads that compute gain nothing beyond the cores.
    wanted = cores if verdict.kind == "CPU" else min(_MOST_READERS * arguments.most, 2 * value)
    if wanted <= value:
        reached = f" `{name}={value}` is already that of the cores." if verdict.kind == "CPU" else ""
        return _set(verdict, f"{most}{reached} {arguments.otherwise}", {}, None)
    if verdict.kind == "CPU":
        more = f"{_give(loader, f'{name}={wanted}')}: more threads share each of them."
    else:
        more = f"If it waits for files, `{name}={wanted}` of {loader.loader} reads more of them at once."
    return _set(verdict, f"{most} {more} {arguments.otherwise}", {name: wanted}, None)


def _gil(its: _Case) -> Verdict:
    verdict, window, loader, stage, arguments = its
    library = "call a library that releases the GIL"
    if verdict.bound is None and not verdict.settings:
        # Its ops are too short for a process each.
        remedy = (
            f"Do more in each call, or {library}. To take a result out of another process costs about as much as it: "
            f"{duration(stage.seconds)}."
        )
        return _set(verdict, remedy, {}, None)
    if not arguments.processes:
        remedy = f"No argument of {loader.loader} has it run in processes. {arguments.in_place_of_processes}".rstrip()
        return _set(verdict, f"{remedy} Or {library}.", {}, None)
    # A process does one at a time, so those that wait need processes beyond the cores, as many as wait now.
    cores = max(1, int(window.cores))
    workers = max(cores, min(stage.concurrency, cores + round(stage.waits * stage.concurrency)))
    remedy = f"{_give(loader, arguments.processes, f'{arguments.several}={workers}')}. Or {library}."
    # Without a recommended number, the gain is for more threads.
    gain = verdict.bound if verdict.settings else None
    return _set(verdict, remedy, {arguments.several: workers}, gain)


def _lock(its: _Case) -> Verdict:
    verdict, loader, arguments = its.verdict, its.loader, its.arguments
    processes = (
        f" {_give(loader, arguments.processes)}: each process has a lock of its own." if arguments.processes else ""
    )
    remedy = (
        "More threads gain nothing. `spdl stack` shows the line that they wait in. Give each thread its own handle, "
        f"connection or decoder, or hold the lock for less.{processes}"
    )
    return replace(verdict, remedy=remedy)


def _crowded(its: _Case) -> Verdict:
    verdict, window, loader, arguments = its.verdict, its.window, its.loader, its.arguments
    cores, name = max(1, int(window.cores)), arguments.several
    if arguments.most and arguments.value > cores:
        # They are threads of the loader's own, which share what each of its ops works on.
        remedy = f"{_give(loader, f'{name}={cores}')}: threads beyond the cores only wait for one."
        return _set(verdict, remedy, {name: cores}, None)
    settings: dict[str, int] = {"threads_per_op": 1}
    remedy = (
        "Let your functions compute in one thread each (`OMP_NUM_THREADS=1`, `cv2.setNumThreads(0)`, "
        "`torch.set_num_threads(1)`)"
    )
    if name:
        settings[name] = cores
        remedy += f", and give {loader.loader} `{name}={cores}`"
    return _set(verdict, f"{remedy}.", settings, None)


def _held_back(its: _Case) -> Verdict:
    verdict, arguments = its.verdict, its.arguments
    even = f"have each {arguments.unit} take about as long as the others"
    if arguments.order:
        return replace(verdict, remedy=f"`{arguments.order}` lets finished ones pass; or {even}.")
    remedy = f"No argument lets finished ones pass, so {even}."
    return _set(verdict, remedy, {}, None)


def _source(verdict: Verdict, window: Window, loader: LoaderArguments) -> Verdict:  # noqa: ARG001
    name = loader.source_several
    settings: dict[str, Any] = {}
    remedy = loader.source
    if name:
        least = max(verdict.settings.values(), default=1)
        value = max((stage.value for stage in loader.stages if stage.several == name), default=0)
        settings = {name: max(least, value)}
        if least > value:
            remedy = f"{remedy} {_give(loader, f'{name}={least}')}."
    return _set(verdict, remedy, settings, verdict.bound if name else None)


def _hang(verdict: Verdict, window: Window, loader: LoaderArguments) -> Verdict:
    if window.is_stopped:
        return verdict
    shows = "line" if window.ending is None else "item"
    remedy = (
        f"`spdl stack` shows its {shows}; with `timeout=...` of {loader.loader} the loop raises instead of waiting."
    )
    return replace(verdict, remedy=remedy)


def _idle(verdict: Verdict, window: Window, loader: LoaderArguments) -> Verdict:
    return replace(verdict, remedy=f"{watch_longer(window)} {loader.idle}".rstrip())


_ABOUT_ALL: dict[str, Callable[[Verdict, Window, LoaderArguments], Verdict]] = {
    "none": _idle,
    "serial source": _source,
    "hang": _hang,
}
_ABOUT_STAGE: dict[str, Callable[[_Case], Verdict]] = {
    "I/O": _more,
    "CPU": _more,
    "batching": _more,
    "transfer": _more,
    "GIL": _gil,
    "lock": _lock,
    "oversubscription": _crowded,
    "held back by order": _held_back,
    "unclear": _unclear,
}
