"""The record of an item that a stage gave up."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FailedItem"]


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that a stage gave up. It holds text only: no item, no exception and no frame is kept alive.

    Attributes:
        stage: The stage's name.
        positions: The positions in their sources, counted from 0, of the item or of all that were merged into it, in
            the order in which they were merged; only the first 1,000 if there are more.
        sources: For each position, the source it is in, counted from 0 in the order of declaration.
        origin: The positions in words, and the sources if the pipeline has several. It says whether there are more
            than 1,000.
        item: What the op was called with, as `repr` shows it, shortened; the generator, if one failed that had begun;
            ``?`` if it was lost on its way into a worker.
        error: The exception's type and message.
        traceback: The formatted traceback, shortened.
        attempts: How many times the op was tried.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source([4, 0, 2]).pipe(lambda x: 8 // x, name="share").add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [2, 4]
        >>> (failed,) = pipeline.failures()
        >>> failed.stage, failed.positions, failed.item, failed.attempts
        ('share', (1,), '0', 1)
        >>> failed.error
        'ZeroDivisionError: integer division or modulo by zero'
    """

    stage: str
    positions: tuple[int, ...]
    sources: tuple[int, ...]
    origin: str
    item: str
    error: str
    traceback: str
    attempts: int
