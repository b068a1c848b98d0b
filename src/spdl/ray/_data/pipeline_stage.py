"""The stages of a pipeline as a step of a Ray dataset."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from spdl._check import positive
from spdl.pipeline import build_pipeline
from spdl.pipeline._declare.records import PipelineConfig, SinkConfig, SourceConfig

from .columns import columns_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spdl.pipeline._declare.records import StageConfig

__all__ = ["PipelineStage"]


class _Batches:
    """Yields the rows of one batch in each pass."""

    def __init__(self) -> None:
        self._given: SimpleQueue[list[Any]] = SimpleQueue()

    def put(self, rows: list[Any]) -> None:
        """Add a batch."""
        self._given.put(rows)

    def __iter__(self) -> Iterator[Any]:
        yield from self._given.get()


class PipelineStage:
    """What ``Dataset.map_batches`` of Ray takes as a class: it runs the rows of each batch through stages, in threads.

    Each row is an item, a dict by the names of the columns. Results are rows again, and may be fewer or more than the
    rows; those that are no dicts become a column named ``item``. Ray makes an object of it in each of its actors.

    Args:
        stages: The stages, as `spdl.pipeline.defs` makes them: `Pipe` and others.
        num_threads: As for `PipelineBuilder.build`.

    Raises:
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> import numpy as np
        >>> from spdl.pipeline.defs import Pipe
        >>> from spdl.ray import PipelineStage
        >>> double = Pipe(lambda row: {**row, "x": 2 * row["x"]}, concurrency=4, output_order="input")
        >>> stage = PipelineStage([double], num_threads=4)
        >>> stage({"x": np.arange(3)})
        {'x': array([0, 2, 4])}
        >>> stage.close()
        >>> ds.map_batches(  # doctest: +SKIP
        ...     PipelineStage, fn_constructor_args=([double],), batch_size=256, concurrency=(1, 8), num_cpus=4
        ... )
    """

    def __init__(self, stages: Sequence[StageConfig], num_threads: int | None = None) -> None:
        if num_threads is not None:
            positive("num_threads", num_threads)
        self._batches = _Batches()
        config = PipelineConfig(SourceConfig(self._batches, continuous=True), stages, SinkConfig(16))
        self._pipeline = build_pipeline(config, num_threads=num_threads)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Run a batch through the stages.

        Args:
            batch: Columns of one length, as numpy arrays.

        Returns:
            The columns of the results. Their order is that of the stages.

        Raises:
            PipelineFailure: If a stage failed, or if every row did.
        """
        rows = rows_of(batch)
        if not rows:
            return batch
        self._batches.put(rows)
        results = list(self._pipeline)
        return columns_of(results) if results else {name: column[:0] for name, column in batch.items()}

    def close(self) -> None:
        """Stop the threads. Ray ends the process without that."""
        # A thread waits for a batch.
        self._batches.put([])
        self._pipeline.stop()
