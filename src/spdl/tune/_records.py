"""The public records of tuning: the changes with their reasons, and the final settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """The limits that the tuner has chosen; see `Pipeline.tuned`.

    ``str()`` returns them as the arguments to write into the program.

    Attributes:
        num_threads: For `PipelineBuilder.build`: how many synchronous ops may run at once.
        concurrency: For `PipelineBuilder.pipe`: how many items each stage that `pipe` made may work on at once, by the
            stage's name. Of stages with the same name, the last one. In a region, it counts for each worker.
        buffer_size: For `PipelineBuilder.add_sink`: how many finished items may wait.
        settled: Whether there is nothing more to gain. While it is False, better settings may follow.
        reason: The last decision of the tuner, in one sentence: the limit of the pipeline, if it has settled.

    Example:
        >>> from spdl.tune import TunedSettings
        >>> print(TunedSettings(12, {"read": 10, "decode": 2}, 3, True, "The CPU is the limit."))
        pipe(..., name='read', concurrency=10)
        pipe(..., name='decode', concurrency=2)
        add_sink(3)
        build(num_threads=12)
    """

    num_threads: int
    concurrency: Mapping[str, int]
    buffer_size: int
    settled: bool
    reason: str

    def __str__(self) -> str:
        lines = [f"pipe(..., name={name!r}, concurrency={slots})" for name, slots in self.concurrency.items()]
        return "\n".join([*lines, f"add_sink({self.buffer_size})", f"build(num_threads={self.num_threads})"])


@dataclass(frozen=True, slots=True)
class TuningStep:
    """A change that the tuner has made; see `Pipeline.tuning_log`.

    Attributes:
        elapsed: Seconds from the pipeline's start.
        num_threads: How many synchronous ops may run at once from then on.
        concurrency: How many items each stage may work on at once from then on, by the stage's name, as for
            `TunedSettings`.
        buffer_size: How many finished items may wait from then on.
        reason: The change and its reason, in one sentence.

    Example:
        >>> import time
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source(range(100)).pipe(lambda x: time.sleep(0.01) or x, name="read")
        >>> pipeline = builder.add_sink().build(autotune=True)
        >>> with pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> first = pipeline.tuning_log()[0]
        >>> first.concurrency["read"] > 1, first.reason.startswith("concurrency of 'read' 1 ->")
        (True, True)
    """

    elapsed: float
    num_threads: int
    concurrency: Mapping[str, int]
    buffer_size: int
    reason: str
