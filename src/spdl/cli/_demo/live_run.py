"""The run that is shown live: a pipeline that loads images."""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from spdl._cores import available_cores
from spdl.cli._common.console import FAILED, CommandError, Console
from spdl.cli._common.machine import cpu_seconds, peak_memory
from spdl.cli._common.text import Table, number, share
from spdl.cli._profile.profile import describe

# Importing a native class loads the native part now, so that the first batch does not wait for it.
from spdl.io import CPUBuffer, load_image, load_image_batch
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure

if TYPE_CHECKING:
    from spdl.cli._demo.turn import ImageWork
    from spdl.pipeline import PipelineStatistics

    Show = Callable[[int, PipelineStatistics], None]

RESIZE_MODE: Final = "pad"
INTERPOLATION: Final = "bicubic"
"""The resize of the reference's own benchmark flow, and this library's default. Every contender does the same."""
BATCHES_AHEAD = 3
"""Finished batches that may wait for the consumer."""


def default_threads() -> int:
    return max(1, int(available_cores()))


def images_pipeline(source: Iterable[Sequence[str]], load: LoadImages, workers: int) -> Pipeline[CPUBuffer]:
    """Return the pipeline, which turns lists of paths into uint8 batches `(len(paths), size, size, 3)`."""
    return (
        PipelineBuilder()
        .add_source(source)
        .pipe(load, concurrency=workers, name="load_image_batch")
        .add_sink(BATCHES_AHEAD)
        .build(num_threads=workers)
    )


class LoadImages:
    """The decoding stage: one native call per batch. It remembers the files that would not load, and why.

    `num_read` and `num_failed` count a file that is read in several passes each time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self.failures: dict[str, str] = {}
        self.num_read = 0
        self.num_failed = 0

    def __call__(self, paths: Sequence[str]) -> CPUBuffer | None:
        try:
            batch = load_image_batch(
                paths, width=self._size, height=self._size, mode=RESIZE_MODE, interpolation=INTERPOLATION, strict=False
            )
        except RuntimeError as error:
            # No file of the batch loaded. None leaves the batch out; its files are reported with the others at the end.
            self._count(paths, {path: _why_not(path, error) for path in paths})
            return None
        self._count(paths, {paths[failure.index]: failure.reason for failure in batch.failures})
        return batch

    def _count(self, paths: Sequence[str], failures: dict[str, str]) -> None:
        with self._lock:
            self.num_read += len(paths)
            self.num_failed += len(failures)
            self.failures.update(failures)


def _why_not(path: str, error: RuntimeError) -> str:
    """Return why a file does not load. If it does load, return the batch's `error`: the file is not at fault."""
    try:
        load_image(path)
    except RuntimeError as reason:
        return str(reason).removeprefix(f"{path}: ")
    raise error


def passes_over_folder(
    paths: Sequence[str], batch_size: int, seconds: float, load: LoadImages
) -> Iterator[Sequence[str]]:
    """Yield the folder's paths in batches, pass after pass, until the time is over: at least one batch.

    Files that have failed are left out of later passes.
    """
    deadline = time.monotonic() + seconds
    while paths := [path for path in paths if path not in load.failures]:
        for start in range(0, len(paths), batch_size):
            yield paths[start : start + batch_size]
            if time.monotonic() > deadline:
                return


def count_images(batch: CPUBuffer) -> int:
    """Return how many images a batch holds, read from the array that a training loop would receive."""
    return len(np.asarray(batch))


SECONDS_PER_FRAME = 0.2
SECONDS_PER_LINE = 1.0
SECONDS_OF_NOW = 1.0
"""Seconds that the current rate ("now") is averaged over. Over a shorter time it jumps with single batches."""


@dataclass
class LiveRun:
    """The measurements of the live run.

    A file that was read in several passes counts in each. `seconds` and `first_batch_seconds` are from the pipeline's
    start to its last and first batch.
    """

    workers: int
    images: int
    batches: int
    files_read: int
    files_failed: int
    failures: dict[str, str]
    seconds: float
    first_batch_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    statistics: PipelineStatistics
    interrupted: bool

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def cpu_seconds_per_image(self) -> float:
        return self.cpu_seconds / self.images if self.images else 0.0

    def figures(self) -> dict[str, object]:
        own = {name: value for name, value in vars(self).items() if name != "statistics"}
        return {
            **own,
            "images_per_second": self.images_per_second,
            "cpu_seconds_per_image": self.cpu_seconds_per_image,
            "bottleneck": self.statistics.bottleneck,
            "stages": [
                {**asdict(stage), "items_per_second": stage.items_per_second, "busy_share": stage.busy_share}
                for stage in self.statistics.stages
            ],
        }


def live_run(work: ImageWork, *, workers: int, seconds: float, console: Console) -> LiveRun:
    """Load the images for some seconds and show where the time goes. Ctrl-C ends it early and keeps the figures."""
    load = LoadImages(work.size)
    pipeline = images_pipeline(passes_over_folder(work.paths, work.batch_size, seconds, load), load, workers)
    images = batches = 0
    first_batch = last_batch = 0.0
    interrupted = False
    # The view is made first, because making it takes longer than the first batch.
    cpu_before = cpu_seconds()
    try:
        with _moving_table(console) if console.rich else _lines(console) as show:
            cpu_before, start = cpu_seconds(), time.perf_counter()
            with pipeline.auto_stop(), warnings.catch_warnings():
                # If no file loads, the report says so.
                warnings.filterwarnings("ignore", "Nothing came out of the pipeline")
                for batch in pipeline:
                    images += count_images(batch)
                    batches += 1
                    last_batch = time.perf_counter() - start
                    first_batch = first_batch or last_batch
                    show(images, pipeline.statistics())
    except KeyboardInterrupt:
        interrupted = True
    except PipelineFailure as failure:
        reasons = "; ".join(describe(error) for error in failure.exceptions)
        raise CommandError(f"the pipeline failed: {reasons}", exit_status=FAILED) from failure
    return LiveRun(
        workers=workers,
        images=images,
        batches=batches,
        files_read=load.num_read,
        files_failed=load.num_failed,
        failures=dict(load.failures),
        seconds=last_batch,
        first_batch_seconds=first_batch,
        cpu_seconds=cpu_seconds() - cpu_before,
        peak_memory_bytes=peak_memory(),
        statistics=pipeline.statistics(),
        interrupted=interrupted,
    )


def stage_table(statistics: PipelineStatistics, title: str) -> Table:
    header = ("stage", "threads", "items", "items/s", "busy", "queue fill", "dropped", "failed")
    table = Table(title, header, rare=("dropped", "failed"))
    for stage in statistics.stages:
        table.rows.append(
            (
                stage.name,
                str(stage.concurrency),
                f"{stage.num_completed:,}",
                number(stage.items_per_second),
                share(stage.busy_share),
                f"{share(stage.queue_fill)} of {stage.queue_capacity}" if stage.queue_capacity else "-",
                str(stage.num_dropped),
                str(stage.num_failed),
            )
        )
    return table


@contextmanager
def _moving_table(console: Console) -> Iterator[Show]:
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    recent = deque([(0.0, 0)])
    with Live(console=console.rich, auto_refresh=False, transient=True) as live:

        def show(images: int, statistics: PipelineStatistics) -> None:
            elapsed = statistics.elapsed
            if len(recent) > 1 and elapsed < recent[-1][0] + SECONDS_PER_FRAME:
                return
            recent.append((elapsed, images))
            while len(recent) > 2 and recent[1][0] <= elapsed - SECONDS_OF_NOW:  # noqa: PLR2004
                recent.popleft()
            since, before = recent[0]
            average, now = images / elapsed, (images - before) / (elapsed - since)
            title = f"{elapsed:5.1f} s   {images:,} images   {number(average)} images/s   now {number(now)} images/s"
            live.update(Text(stage_table(statistics, title).plain(live.console.width)), refresh=True)

        yield show


@contextmanager
def _lines(console: Console) -> Iterator[Show]:
    console.hint_at_rich()
    shown_at = 0.0

    def show(images: int, statistics: PipelineStatistics) -> None:
        nonlocal shown_at
        elapsed = statistics.elapsed
        if elapsed < shown_at + SECONDS_PER_LINE:
            return
        shown_at = elapsed
        stages = ", ".join(f"{stage.name} {share(stage.busy_share)} busy" for stage in statistics.stages[1:-1])
        console.print(f"{elapsed:6.1f} s  {images:,} images  {number(images / elapsed)} images/s  ({stages})")

    yield show
