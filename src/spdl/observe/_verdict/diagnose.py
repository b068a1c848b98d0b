"""Says what limits a pipeline of another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.observe._verdict.verdict import Verdict
from spdl.observe._window.seen import look_at
from spdl.observe._window.window import Window
from spdl.observe._window.window_of import window_of

from .decide import verdict

if TYPE_CHECKING:
    from spdl.observe._page import ObservedPipeline


SECONDS = 1.2


def watch(pipeline: ObservedPipeline, seconds: float = SECONDS) -> Window:
    """Watch a pipeline for a while, and return what it did.

    Args:
        pipeline: The pipeline, of any process of this user.
        seconds: How many seconds to watch it. Of one that has ended, the window is all of its life.

    Raises:
        PageError: If its page holds nothing yet, or is damaged.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines, verdict, watch
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).pipe(str).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     window = watch(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> [stage.name for stage in window.stages]
        ['str']
        >>> # If other programs have the cores, the kind is another one.
        >>> verdict(window).kind  # doctest: +SKIP
        'slow consumer'
    """
    return window_of(pipeline.head, look_at(pipeline, seconds))


def diagnose(pipeline: ObservedPipeline, seconds: float = SECONDS) -> Verdict:
    """Watch a pipeline for a while, and return what limits it: the `verdict` on what `watch` returns.

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
        >>> # If other programs have the cores, the kind is another one.
        >>> verdict.kind  # doctest: +SKIP
        'slow consumer'
        >>> isinstance(verdict.sentence(), str)
        True
    """
    return verdict(watch(pipeline, seconds))
