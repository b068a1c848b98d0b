"""A pipeline as a datasource of Ray Data."""

from __future__ import annotations

import inspect
from itertools import islice
from typing import TYPE_CHECKING, Any

from spdl._check import positive, refuse
from spdl.pipeline import build_pipeline
from spdl.pipeline._declare.records import PipelineConfig, SourceConfig
from spdl.ray._optional.import_ray import import_ray

from .columns import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ray_datasource"]


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
    # What it takes differs between versions of Ray.
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


class _Range:
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
    """Return what a task calls."""

    def read() -> Iterator[Any]:
        to_block = import_ray("ray.data.block").BlockAccessor.batch_to_block
        source = config.src
        assert isinstance(source, SourceConfig)
        part = PipelineConfig(SourceConfig(_Range(source.source, start, stop)), config.pipes, config.sink)
        with build_pipeline(part, num_threads=num_threads).auto_stop() as pipeline:
            items = iter(pipeline)
            while batch := list(islice(items, rows)):
                yield to_block(columns_of(batch))

    return read
