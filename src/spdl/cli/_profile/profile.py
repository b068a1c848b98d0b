"""`spdl profile`: find the pipeline that the user names, measure each stage of it alone, and give advice."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores
from spdl._signatures import signature
from spdl.cli._common.console import (
    FAILED,
    INTERRUPTED,
    CommandError,
    Console,
    check_writable,
    console_beside,
    write_figures,
)
from spdl.cli._common.machine import provenance
from spdl.cli._profile.view import Advice, advise, print_profile
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, ProfileHook, profile_pipeline
from spdl.pipeline.config import get_default_profile_callback, get_default_profile_hook
from spdl.pipeline.defs import PipelineConfig

if TYPE_CHECKING:
    from argparse import Namespace

    import rich.status

    from spdl.pipeline import ProfileResult


def profile(options: Namespace) -> int:
    """Profile the pipeline that the command line names. After Ctrl-C, print the measurements up to then."""
    console = console_beside(options.json)
    check_writable(options.json)
    config = find_pipeline(options.subject)
    rank = os.environ.get("LOCAL_RANK", "").strip()
    if rank not in ("", "0"):
        raise CommandError(f"LOCAL_RANK is {rank}: only the first process of a machine profiles. Unset it.")
    progress = _Progress(console)
    interrupted = False
    try:
        profile_pipeline(config, options.num_inputs, callback=progress.note, hook=progress)
    except KeyboardInterrupt:
        interrupted = True
    except PipelineFailure as failure:
        reasons = "; ".join(describe(error) for error in failure.exceptions)
        raise CommandError(f"the pipeline failed: {reasons}", exit_status=FAILED) from failure
    except RuntimeError as error:
        raise CommandError(str(error), exit_status=FAILED) from error
    if progress.results:
        cores = available_cores()
        advice = advise(progress.results, cores)
        print_profile(progress.results, advice, cores, console)
        write_figures(options.json, _figures(progress.results, advice), console)
    elif not interrupted:
        raise CommandError(f"{options.subject} has no stages, so there is nothing to profile: add some with pipe().")
    if interrupted:
        console.print("interrupted: these stages were measured before")
        return INTERRUPTED
    return 0


def _figures(results: list[ProfileResult], advice: Advice) -> dict[str, Any]:
    stages = [
        {"gil": result.gil, "cpu_share": result.cpu_share, "recommended_concurrency": recommended} | asdict(result)
        for result, recommended in zip(results, advice.concurrency, strict=True)
    ]
    return {
        "stages": stages,
        "num_threads": advice.num_threads,
        "items_per_second": advice.items_per_second,
        "limit": advice.verdict.sentence(),
        "verdict": asdict(advice.verdict),
        **provenance(),
    }


class _Progress(ProfileHook):
    """Shows what is being measured and keeps the results. It also calls the default hooks that the user's code set."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: rich.status.Status | None = None
        self.results: list[ProfileResult] = []

    def note(self, result: ProfileResult) -> None:
        self.results.append(result)
        if self._status is None:
            self._console.print(f"measured {result.name}")
        callback = get_default_profile_callback()
        if callback is not None:
            callback(result)

    @contextmanager
    def pipeline_profile_hook(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self._console.rich is not None:
                self._status = stack.enter_context(self._console.rich.status("reading the source"))
            else:
                self._console.print("reading the source")
            self._enter_users(stack, "pipeline_profile_hook")
            yield
        self._status = None

    @contextmanager
    def stage_profile_hook(self, stage: str, concurrency: int) -> Iterator[None]:
        if self._status is not None:
            from rich.text import Text  # noqa: PLC0415

            self._status.update(Text(f"measuring {stage} at concurrency {concurrency}"))
        with ExitStack() as stack:
            self._enter_users(stack, "stage_profile_hook", stage, concurrency)
            yield

    def _enter_users(self, stack: ExitStack, method: str, *arguments: Any) -> None:
        hook = get_default_profile_hook()
        if hook is not None:
            stack.enter_context(getattr(hook, method)(*arguments))


ACCEPTED = (
    "Accepted is MODULE:NAME, where NAME is a PipelineBuilder, a PipelineConfig, or a function without parameters that"
    " returns one of them"
)


def find_pipeline(subject: str) -> PipelineConfig[Any]:
    """Import the object that `subject` names, call it if it is a function, and return the pipeline's declaration.

    Modules are searched in the current folder first.
    """
    module_name, _, path = subject.partition(":")
    if not module_name or not path:
        raise CommandError(f"got {subject!r}. {ACCEPTED}, such as train:make_pipeline for make_pipeline in train.py.")
    if module_name.endswith(".py") or "/" in module_name:
        name = ".".join(Path(module_name).with_suffix("").parts).lstrip(".")
        raise CommandError(
            f"{module_name!r} is a file. {ACCEPTED}: write {name}:{path}, in the folder that Python would import it"
            " from."
        )
    with _current_folder_importable():
        found = _import(module_name)
        for part in path.split("."):
            if not hasattr(found, part):
                raise CommandError(f"{subject!r} does not exist: {_name(found)} has no {part!r}{_hint(found)}.")
            found = getattr(found, part)
        return _declaration(found, subject)


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"there is no module {error.name!r}, neither in {Path.cwd()} nor where Python looks for installed ones."
                " Run the command in the folder that holds it, or set PYTHONPATH."
            ) from error
        raise CommandError(f"importing {name!r} failed: {describe(error)}") from error
    except (Exception, SystemExit) as error:
        raise CommandError(f"importing {name!r} failed: {describe(error)}") from error


def _declaration(found: Any, subject: str) -> PipelineConfig[Any]:
    what = subject
    if not isinstance(found, PipelineBuilder | PipelineConfig) and callable(found):
        _check_parameters(found, subject)
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise CommandError(f"calling {subject} failed: {describe(error)}") from error
        what = f"{subject}()"
    if isinstance(found, PipelineBuilder):
        try:
            return found.get_config()
        except (RuntimeError, ValueError) as error:
            raise CommandError(f"{what} is not complete: {error}") from error
    if isinstance(found, PipelineConfig):
        return found
    remedy = " Return the builder itself, and call build() elsewhere." if isinstance(found, Pipeline) else ""
    if type(found).__module__.startswith("spdl.dataloader"):
        remedy = " A loader is watched while it runs: `spdl why`."
    raise CommandError(f"{what} is of type {type(found).__name__!r}. {ACCEPTED}.{remedy}")


def _check_parameters(function: Callable[..., Any], subject: str) -> None:
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # A function written in C may have none. Calling it will tell.
        return
    try:
        parameters.bind()
    except TypeError:
        raise CommandError(
            f"{subject} is a function with parameters, {parameters}. {ACCEPTED}: write one that calls it with what you"
            " want to profile."
        ) from None


def _name(found: Any) -> str:
    return f"module {found.__name__!r}" if hasattr(found, "__spec__") else repr(type(found).__name__)


def _hint(found: Any) -> str:
    names = [
        name
        for name, value in vars(found).items()
        if isinstance(value, PipelineBuilder | PipelineConfig)
        or (callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == found.__name__)
    ]
    return f"; it has {', '.join(sorted(names))}" if names else ""


def describe(error: BaseException) -> str:
    """Return a description of the error and the place that raised it."""
    what = "".join(traceback.format_exception_only(error)).strip().replace("\n", "; ")
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return what + "".join(f" ({frame.filename}:{frame.lineno})" for frame in frames)
