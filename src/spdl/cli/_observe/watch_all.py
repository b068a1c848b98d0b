"""Watches several pipelines at the same time."""

from __future__ import annotations

from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

from spdl.observe import PageError
from spdl.observe._window.window import watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.observe import ObservedPipeline
    from spdl.observe._window.window import Window

__all__ = ["watch_all"]


def watch_all(pipelines: Sequence[ObservedPipeline], seconds: float) -> list[tuple[ObservedPipeline, Window]]:
    """Return what each pipeline did over the same time. Those that have only begun, or end meanwhile, are left out."""
    given_up = Event()

    def pause(seconds: float) -> None:
        if given_up.wait(seconds):
            raise CancelledError

    def watched(pipeline: ObservedPipeline) -> Window | None:
        try:
            return watch(pipeline, seconds, pause)
        except PageError:
            return None

    with ThreadPoolExecutor(max(1, len(pipelines))) as threads:
        try:
            windows = list(threads.map(watched, pipelines))
        finally:
            # After a Ctrl-C the threads are waited for, too.
            given_up.set()
    return [(pipeline, window) for pipeline, window in zip(pipelines, windows, strict=True) if window is not None]
