"""A live view of a running pipeline: a moving table on a terminal, a line per second elsewhere."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spdl.cli._common.table import Table
from spdl.cli._common.text import number, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import rich.console

    from spdl.cli._common.console import Console
    from spdl.pipeline import PipelineStatistics, StageStatistics

    Progress = Callable[[], tuple[int, PipelineStatistics]]

FRAMES_PER_SECOND = 5
SECONDS_PER_LINE = 1.0
SECONDS_OF_NOW = 1.0
"""Seconds that the current rate ("now") is averaged over. Over a shorter time it jumps with single batches."""


@contextmanager
def watching(progress: Progress, console: Console) -> Iterator[None]:
    """Show the progress until the block ends.

    Args:
        progress: Returns the images delivered so far and the pipeline's statistics. It is called from another thread.
        console: The console to show it on.
    """
    if console.rich is None:
        console.hint_at_rich()
        with _lines(progress, console):
            yield
        return

    from rich.live import Live  # noqa: PLC0415

    view = _MovingTable(progress, console.rich)
    with Live(get_renderable=view.frame, console=console.rich, refresh_per_second=FRAMES_PER_SECOND, transient=True):
        yield


def stage_table(statistics: PipelineStatistics, title: str, note: str = "") -> Table:
    """Return the table of the stages: their rate, how busy they are, and how full their input queues are."""
    header = ("stage", "threads", "items", "items/s", "busy", "queue fill", "dropped", "failed")
    table = Table(title, header, note=note, rare=("dropped", "failed"))
    for stage in statistics.stages:
        table.rows.append(
            (
                stage.name,
                str(stage.concurrency),
                f"{stage.num_completed:,}",
                number(stage.items_per_second),
                share(stage.busy_share),
                _queue_fill(stage),
                str(stage.num_dropped),
                str(stage.num_failed),
            )
        )
    return table


def _queue_fill(stage: StageStatistics) -> str:
    return f"{share(stage.queue_fill)} of {stage.queue_capacity}" if stage.queue_capacity else "-"


class _MovingTable:
    def __init__(self, progress: Progress, console: rich.console.Console) -> None:
        self._progress = progress
        self._console = console
        self._recent = deque([(0.0, 0)])

    def frame(self) -> rich.console.Group:
        images, statistics = self._progress()
        elapsed = statistics.elapsed
        self._recent.append((elapsed, images))
        while len(self._recent) > 2 and self._recent[1][0] <= elapsed - SECONDS_OF_NOW:  # noqa: PLR2004
            self._recent.popleft()
        since, before = self._recent[0]
        now = (images - before) / (elapsed - since) if elapsed > since else 0.0
        average = images / elapsed if elapsed else 0.0
        title = f"{elapsed:5.1f} s   {images:,} images   {number(average)} images/s   now {number(now)} images/s"
        return stage_table(statistics, title).rich(self._console.width)


@contextmanager
def _lines(progress: Progress, console: Console) -> Iterator[None]:
    ended = threading.Event()

    def report() -> None:
        # The reader has gone. The main thread notices at its next line and ends the command.
        with suppress(BrokenPipeError):
            while not ended.wait(SECONDS_PER_LINE):
                console.print(_line(*progress()))

    reporter = threading.Thread(target=report, name="spdl-progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def _line(images: int, statistics: PipelineStatistics) -> str:
    average = images / statistics.elapsed if statistics.elapsed else 0.0
    stages = ", ".join(f"{stage.name} {share(stage.busy_share)} busy" for stage in statistics.stages[1:-1])
    return f"{statistics.elapsed:6.1f} s  {images:,} images  {number(average)} images/s  ({stages})"
