"""The identity of a stage, as messages show it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SINK", "SOURCE", "StageInfo"]

# The names of the ends of a pipeline, which are no stages.
SOURCE = "src"
SINK = "sink"


@dataclass(frozen=True, slots=True)
class StageInfo:
    """The identity of a stage in messages. ``str()`` gives ``"0:1:decode[4]"``.

    Attributes:
        pipeline_id: The pipeline's number, counted in this process from 0.
        stage_id: The stage's number in the pipeline, counted from the sources on. A merge comes before the pipelines
            that it merges.
        stage_name: The stage's name. Other stages of the pipeline may have the same name.
        concurrency: How many items the stage was declared to work on at once, if more than one.

    Example:
        >>> from spdl.pipeline import StageInfo
        >>> str(StageInfo(0, "1", "decode", 4))
        '0:1:decode[4]'
    """

    pipeline_id: int
    stage_id: str
    stage_name: str
    concurrency: int | None = None

    def __str__(self) -> str:
        concurrency = "" if self.concurrency is None else f"[{self.concurrency}]"
        return f"{self.pipeline_id}:{self.stage_id}:{self.stage_name}{concurrency}"
