"""Says what limits a pipeline of another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.observe._window.window import watch
from spdl.pipeline._metrics.decide import decide

from .measure import measure

if TYPE_CHECKING:
    from spdl.observe._page.observed_pipeline import ObservedPipeline
    from spdl.pipeline._metrics.verdict import Verdict

__all__ = ["SECONDS", "diagnose"]

SECONDS = 1.2


def diagnose(pipeline: ObservedPipeline, seconds: float = SECONDS) -> Verdict:
    """Watch a pipeline for a while, and return what limits it.

    Args:
        pipeline: The pipeline, of any process of this user.
        seconds: How many seconds to watch it. Ops that take as long as that ask for more.

    Raises:
        PageError: If its page holds nothing yet, or is damaged.

    Example:
        >>> import os, time
        >>> from spdl.observe import diagnose, find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     verdict = diagnose(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> verdict.kind
        'slow consumer'
    """
    return decide(measure(pipeline.head, watch(pipeline, seconds)))
