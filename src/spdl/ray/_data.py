"""Pipelines and Ray Data: a datasource, a step of a dataset, and a dataset as a source."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from queue import SimpleQueue
from typing import Any

from spdl._check import positive, refuse, refuse_masked
from spdl.pipeline import build_pipeline
from spdl.pipeline._declare.records import PipelineConfig, SinkConfig, SourceConfig, StageConfig
from spdl.ray._crew import import_ray

# The column of items that are not dicts, as Ray Data calls it.
_ITEM = "item"


def columns_of(items: Sequence[Any]) -> dict[str, Any]:
    """Return the columns of items: dicts with the same keys, or others, which become the column ``item``."""
    rows = [item if isinstance(item, dict) else {_ITEM: item} for item in items]
    for row in rows:
        if row.keys() != rows[0].keys():
            raise ValueError(f"The rows of a batch have different columns: {list(rows[0])} and {list(row)}.")
    return {name: _column(name, [row[name] for row in rows]) for name in rows[0]} if rows else {}


def _column(name: str, values: list[Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - only where there are columns.

    for value in values:
        refuse_masked(name, value)
    kinds = {(value.shape, value.dtype) for value in values if isinstance(value, np.ndarray)}
    if kinds and len(kinds) == 1 and all(isinstance(value, np.ndarray) for value in values):
        return np.stack(values)
    if not kinds and all(isinstance(value, (int, float, bool, np.generic)) for value in values):
        return np.asarray(values)
    # Texts, bytes, and arrays of different shapes.
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def ray_datasource(
    config: PipelineConfig[Any], *, rows_per_task: int = 4096, rows_per_block: int = 256, num_threads: int | None = None
) -> Any:
    """Return a pipeline as a datasource, for ``ray.data.read_datasource``.

    Each read task runs the whole pipeline on a range of its source's positions. Results are rows: dicts by the names of
    columns, or others, which become the column ``item``. Ray runs a task again if its process is lost, so the pipeline
    has to yield the same number of rows each time. For items that are delivered once in any case, see `run_on_ray`.

    Args:
        config: The pipeline. Its source is a sequence, or has ``iterate_from(position)`` and a length.
        rows_per_task: Positions of a range.
        rows_per_block: Rows that are passed on at once.
        num_threads: As for `PipelineBuilder.build`, in each task.

    Returns:
        A ``ray.data.Datasource``.

    Raises:
        ImportError: If Ray Data is not installed.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> config = PipelineBuilder().add_source(range(1000)).pipe(str, concurrency=4).add_sink().get_config()
        >>> ray.data.read_datasource(ray_datasource(config)).count()  # doctest: +SKIP
        1000
    """
    data = import_ray("ray.data")
    metadata_class = import_ray("ray.data.block").BlockMetadata
    if not isinstance(config, PipelineConfig):
        refuse(TypeError, "config", "a PipelineConfig", config)
    rows, block = positive("rows_per_task", rows_per_task), positive("rows_per_block", rows_per_block)
    source: Any = config.src.source if isinstance(config.src, SourceConfig) else None
    seekable = hasattr(source, "iterate_from") or hasattr(source, "__getitem__")
    if not (seekable and hasattr(source, "__len__")):
        refuse(ValueError, "config", "a pipeline with one source that has a length and can begin anywhere", source)
    length = len(source)
    threads = None if num_threads is None else positive("num_threads", num_threads)
    # Its parameters differ between versions of Ray.
    unknown = dict.fromkeys(set(inspect.signature(metadata_class).parameters) - {"num_rows"})

    class Reader(data.Datasource):  # type: ignore[misc,name-defined]
        def get_name(self) -> str:
            return "SPDL"

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            size = min(rows, max(1, -(-length // max(1, parallelism))))
            return [
                data.ReadTask(
                    _reader(config, start, min(start + size, length), block, threads),
                    metadata_class(num_rows=None, **unknown),
                )
                for start in range(0, length, size)
            ]

    return Reader()


class _SourceRange:
    """The items of a source from one position to before another."""

    def __init__(self, source: Any, start: int, stop: int) -> None:
        self._source = source
        self._start = start
        self._stop = stop

    def __iter__(self) -> Iterator[Any]:
        if hasattr(self._source, "iterate_from"):
            return islice(self._source.iterate_from(self._start), self._stop - self._start)
        return map(self._source.__getitem__, range(self._start, self._stop))


def _reader(
    config: PipelineConfig[Any], start: int, stop: int, rows: int, num_threads: int | None
) -> Callable[[], Iterator[Any]]:
    def read() -> Iterator[Any]:
        to_block = import_ray("ray.data.block").BlockAccessor.batch_to_block
        source = config.src
        assert isinstance(source, SourceConfig)
        part = PipelineConfig(SourceConfig(_SourceRange(source.source, start, stop)), config.pipes, config.sink)
        with build_pipeline(part, num_threads=num_threads).auto_stop() as pipeline:
            items = iter(pipeline)
            while batch := list(islice(items, rows)):
                yield to_block(columns_of(batch))

    return read


class _Batches:
    """Yields the rows of one batch in each pass."""

    def __init__(self) -> None:
        self._given: SimpleQueue[list[Any]] = SimpleQueue()

    def put(self, rows: list[Any]) -> None:
        self._given.put(rows)

    def __iter__(self) -> Iterator[Any]:
        yield from self._given.get()


class PipelineStage:
    """What ``Dataset.map_batches`` of Ray takes as a class: it runs the rows of each batch through stages, in threads.

    Each row is an item, a dict by the names of the columns. Results are rows again, and may be fewer or more than the
    rows; results that are not dicts become a column named ``item``. Ray makes an object of it in each of its actors.

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
            The columns of the results, in the order of the stages.

        Raises:
            PipelineFailure: If a stage failed, or if every row did.
        """
        rows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
        if not rows:
            return batch
        self._batches.put(rows)
        with warnings.catch_warnings():
            # The first batches may have no row that a filter lets through.
            warnings.filterwarnings("ignore", "Nothing came out of the pipeline")
            results = list(self._pipeline)
        return columns_of(results) if results else {name: column[:0] for name, column in batch.items()}

    def close(self) -> None:
        """Stop the threads. Ray ends the process without that."""
        # A thread waits for a batch.
        self._batches.put([])
        self._pipeline.stop()


class RayDataSource:
    """An iterable over the rows, or batches, of a Ray dataset: a source for `PipelineBuilder.add_source`.

    Each iteration executes the dataset again. Ray decides about the order, so a pipeline that is resumed reads it from
    the beginning, and continues exactly only if the order is the same.

    Args:
        dataset: A ``ray.data.Dataset``, or what ``streaming_split`` or Ray Train's ``get_dataset_shard`` returns.
        batch_size: Rows of a batch. None yields single rows.

    Raises:
        TypeError, ValueError: If the dataset is invalid, or the batch size is not an int of at least 1.

    Example:
        >>> from spdl.ray import RayDataSource
        >>> builder.add_source(RayDataSource(ds, batch_size=32))  # doctest: +SKIP
        >>> class Dataset:
        ...     def iter_rows(self):
        ...         return iter([{"id": 0}, {"id": 1}])
        ...     def iter_batches(self, **options): ...
        >>> list(RayDataSource(Dataset()))
        [{'id': 0}, {'id': 1}]
    """

    def __init__(self, dataset: Any, batch_size: int | None = None) -> None:
        if not (hasattr(dataset, "iter_rows") and hasattr(dataset, "iter_batches")):
            refuse(TypeError, "dataset", "a dataset of Ray", dataset)
        self._dataset = dataset
        self._batch_size = None if batch_size is None else positive("batch_size", batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return an iterator over rows as dicts, or over batches as dicts of numpy arrays."""
        if self._batch_size is None:
            rows: Any = self._dataset.iter_rows()
            return iter(rows)
        batches: Any = self._dataset.iter_batches(batch_size=self._batch_size, batch_format="numpy")
        return iter(batches)
