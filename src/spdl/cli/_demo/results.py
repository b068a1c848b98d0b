"""The figures of a run as JSON, with everything needed to repeat them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from spdl.cli._common.cache import abbreviated
from spdl.cli._common.provenance import provenance
from spdl.cli._demo.images_job import INTERPOLATION, RESIZE_MODE
from spdl.cli._demo.measures import MEASURES

if TYPE_CHECKING:
    from pathlib import Path

    from spdl.cli._demo.comparison import Comparison, Contender
    from spdl.cli._demo.live_run import LiveRun
    from spdl.cli._demo.turn import Work
    from spdl.pipeline import StageStatistics


def results(folder: Path, work: Work, run: LiveRun, comparison: Comparison | None) -> dict[str, object]:
    """Return all measurements. Times are in seconds, memory in bytes, shares from 0 to 1."""
    return {
        "provenance": provenance(),
        "job": {
            "folder": abbreviated(folder),
            "files": len(work.paths),
            "batch_size": work.batch_size,
            "size": work.size,
            "resize_mode": RESIZE_MODE,
            "interpolation": INTERPOLATION,
        },
        "live_run": _live_run(run),
        "comparison": None if comparison is None else _comparison(comparison),
    }


def _live_run(run: LiveRun) -> dict[str, object]:
    return {
        "workers": run.workers,
        "images": run.images,
        "batches": run.batches,
        "files_read": run.files_read,
        "files_failed": run.files_failed,
        "failures": run.failures,
        "seconds": run.seconds,
        "images_per_second": run.images_per_second,
        "first_batch_seconds": run.first_batch_seconds,
        "cpu_seconds": run.cpu_seconds,
        "cpu_seconds_per_image": run.cpu_seconds_per_image,
        "peak_memory_bytes": run.peak_memory,
        "interrupted": run.interrupted,
        "bottleneck": run.statistics.bottleneck,
        "stages": [_stage(stage) for stage in run.statistics.stages],
    }


def _stage(stage: StageStatistics) -> dict[str, object]:
    return {**asdict(stage), "items_per_second": stage.items_per_second, "busy_share": stage.busy_share}


def _comparison(comparison: Comparison) -> dict[str, object]:
    ours = comparison.contenders[0] if comparison.contenders else None
    return {
        "interrupted": comparison.interrupted,
        "absent": comparison.absent,
        "contenders": [_contender(it, ours) for it in comparison.contenders],
    }


def _contender(contender: Contender, ours: Contender | None) -> dict[str, object]:
    return {
        "contender": contender.environment.contender,
        "name": contender.name,
        "workers": contender.workers,
        "worker": contender.environment.worker,
        "trials_images_per_second": {str(workers): rate for workers, rate in contender.trials.items()},
        "turns": [turn._asdict() for turn in contender.turns],
        "median": {key: measure.of(contender) for key, measure in MEASURES.items()},
        "spdl_turbo_is_better_by": {key: measure.advantage(ours, contender) for key, measure in MEASURES.items()}
        if ours and ours is not contender
        else None,
    }
