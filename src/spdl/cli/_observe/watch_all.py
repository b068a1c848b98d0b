"""Watches several pipelines at the same time."""

from __future__ import annotations

from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event, Lock
from typing import TYPE_CHECKING

from spdl.observe import PageError
from spdl.observe._window.watch_epochs import watch_epochs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spdl.observe import ObservedPipeline
    from spdl.observe._window.watch_epochs import Watched

__all__ = ["watch_all"]


def watch_all(pipelines: Sequence[ObservedPipeline], seconds: float, *, longest: float) -> list[Watched]:
    """Return what each pipeline did over the same time, or those like it that followed it where it has ended.

    Those that have only begun, or end meanwhile, are left out.

    Args:
        pipelines: The pipelines.
        seconds: How long to watch.
        longest: How long that may take where one ends and another follows.
    """
    given_up = Event()
    claims, claimed = Lock(), {pipeline.path for pipeline in pipelines}

    def pause(seconds: float) -> None:
        if given_up.wait(seconds):
            raise CancelledError

    def claim(pipeline: ObservedPipeline) -> bool:
        """Return whether nobody else watches a pipeline: several of a process may be alike."""
        with claims:
            return _added(claimed, pipeline.path)

    def watched(pipeline: ObservedPipeline) -> Watched | None:
        try:
            return watch_epochs(pipeline, seconds, longest, claim, pause)
        except PageError:
            return None

    with ThreadPoolExecutor(max(1, len(pipelines))) as threads:
        try:
            found = list(threads.map(watched, pipelines))
        finally:
            # After a Ctrl-C the threads are waited for, too.
            given_up.set()
    return [each for each in found if each is not None]


def _added(paths: set[Path], path: Path) -> bool:
    if path in paths:
        return False
    paths.add(path)
    return True
