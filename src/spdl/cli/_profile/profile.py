"""`spdl profile`: measure each stage of a pipeline alone, and give advice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores
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
from spdl.cli._profile.subject import describe, find_pipeline
from spdl.cli._profile.view import Advice, advise, print_profile
from spdl.pipeline import PipelineFailure, ProfileHook, profile_pipeline
from spdl.pipeline.config import get_default_profile_callback, get_default_profile_hook

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
