"""Statistics to export, made by hand or by a pipeline."""

from __future__ import annotations

from spdl.pipeline import PipelineStatistics, StageStatistics

__all__ = ["Told", "stage", "told"]

_ZEROS = dict.fromkeys(
    (
        "num_completed",
        "num_emitted",
        "num_failed",
        "num_dropped",
        "num_retried",
        "num_overdue",
        "running",
        "queue_size",
        "queue_capacity",
    ),
    0,
)
_NOTHING = dict.fromkeys(
    ("busy_seconds", "cpu_seconds", "starved_seconds", "blocked_seconds", "held_seconds", "queue_fill"), 0.0
)


def stage(name: str, **fields: float) -> StageStatistics:
    values = {"concurrency": 1, "elapsed": 1.0, **_ZEROS, **_NOTHING, **fields}
    return StageStatistics(name=name, **values)  # type: ignore[arg-type]


class Told:
    """Has the statistics that it is told to have."""

    def __init__(self, statistics: PipelineStatistics) -> None:
        self.now = statistics

    def statistics(self) -> PipelineStatistics:
        return self.now


def told(*stages: StageStatistics, elapsed: float = 1.0, in_flight: int = 0) -> Told:
    return Told(PipelineStatistics(elapsed, stages, in_flight, "Nothing has run yet."))
