"""The live run: the main job in this process, with a live view."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._common.measure import cpu_seconds, peak_memory
from spdl.cli._demo.images_job import LoadImages, PassesOverFolder, count_images, images_pipeline
from spdl.cli._demo.live import watching
from spdl.cli._profile.subject import describe
from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from spdl.cli._common.console import Console
    from spdl.cli._demo.turn import Work
    from spdl.pipeline import PipelineStatistics


@dataclass
class LiveRun:
    """The measurements of the live run.

    Attributes:
        workers: Threads that decoded.
        images: Images delivered, counted in the arrays.
        batches: Batches delivered.
        files_read: Files tried. A file that was read in several passes counts in each.
        files_failed: Files of `files_read` that failed.
        failures: The reason for each file that failed, by path.
        seconds: From the start of the pipeline to its last batch.
        first_batch_seconds: From the start of the pipeline to its first batch.
        cpu_seconds: CPU time of the process in `seconds`.
        peak_memory: The most memory that the process held up to the end, in bytes.
        statistics: The pipeline's own statistics.
        interrupted: Whether Ctrl-C ended the run early.
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
    peak_memory: int
    statistics: PipelineStatistics
    interrupted: bool

    @property
    def images_per_second(self) -> float:
        """Images delivered per second of the run."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def cpu_seconds_per_image(self) -> float:
        """CPU seconds per image; 0 if no image was delivered."""
        return self.cpu_seconds / self.images if self.images else 0.0


def live_run(work: Work, *, workers: int, seconds: float, console: Console) -> LiveRun:
    """Load the images for some seconds and show where the time goes. Ctrl-C ends it early and keeps the measurements.

    Raises:
        CommandError: The pipeline failed.
    """
    load = LoadImages(work.size)
    pipeline = images_pipeline(PassesOverFolder(work.paths, work.batch_size, seconds, load), load, workers)
    images = batches = 0
    first_batch = last_batch = 0.0
    interrupted = False

    def progress() -> tuple[int, PipelineStatistics]:
        return images, pipeline.statistics()

    # The view is made first, because making it takes longer than the first batch.
    cpu_before = cpu_seconds()
    try:
        with watching(progress, console):
            cpu_before, start = cpu_seconds(), time.perf_counter()
            with pipeline.auto_stop():
                for batch in pipeline:
                    images += count_images(batch)
                    batches += 1
                    last_batch = time.perf_counter() - start
                    first_batch = first_batch or last_batch
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
        peak_memory=peak_memory(),
        statistics=pipeline.statistics(),
        interrupted=interrupted,
    )
