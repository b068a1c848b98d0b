"""The fluent way to declare and build a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ._defs import Aggregate, Disaggregate, Pipe, PipelineConfig, SinkConfig, SourceConfig
from ._locate import callers_line
from ._pipeline import Pipeline
from ._plan import plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable
    from concurrent.futures import Executor

    from ._defs import Aggregator, Op, OutputOrder, StageConfig

__all__ = ["PipelineBuilder"]

T = TypeVar("T")


class PipelineBuilder(Generic[T]):
    """Declares a pipeline stage by stage, and builds it.

    Each method but `get_config` and `build` returns the builder itself.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = (
        ...     PipelineBuilder()
        ...     .add_source(range(5))
        ...     .pipe(lambda x: x * x, concurrency=2, output_order="input")
        ...     .aggregate(2)
        ...     .add_sink(3)
        ...     .build(num_threads=2)
        ... )
        >>> with pipeline.auto_stop():
        ...     print(list(pipeline))
        [[0, 1], [4, 9], [16]]
    """

    def __init__(self) -> None:
        self._source: SourceConfig[Any] | None = None
        self._stages: list[StageConfig] = []
        self._sink: SinkConfig | None = None

    def add_source(self, source: Iterable[Any] | AsyncIterable[Any]) -> Self:
        """Say where the items come from.

        Args:
            source: An iterable or async iterable; ``__aiter__`` wins where both exist. It is iterated once, when the
                pipeline runs. The calls of ``iter()`` and ``next()`` never overlap but may come from different
                threads, and run at most 2 items ahead of the first stage's free slots. Where the pipeline stops
                early, the iterator's ``close()`` (or ``aclose()``) is called if it has one.

        Raises:
            ValueError: If ``source`` cannot be iterated, or a source was added already.
        """
        if self._source is not None:
            raise ValueError(f"The pipeline already has a source, {self._source!r} ({callers_line()}).")
        self._source = SourceConfig(source)
        return self

    def pipe(
        self,
        op: Op,
        /,
        *,
        concurrency: int = 1,
        executor: Executor | None = None,
        name: str | None = None,
        output_order: OutputOrder = "completion",
    ) -> Self:
        """Add a stage that applies an op to each item.

        What the op returns is passed on, except that None drops the item. A generator's results are passed on one
        by one. An op that raises drops its item, which is logged and counted; the rest goes on. `KeyboardInterrupt`,
        `SystemExit` and their like fail the pipeline.

        Args:
            op: Called with one item. A function, a generator function, their async forms, any callable, or an object
                with ``__getitem__`` (such as a list or a dict). Async ops run on one event-loop thread, so they must
                not block; all others run on the pipeline's worker threads, and gain from concurrency as far as they
                release the GIL.
            concurrency: How many items the stage works on at once. Synchronous ops are also bounded by the
                ``num_threads`` of `build`, which all stages share.
            executor: Where to run a synchronous op instead of the pipeline's threads. It is not shut down. What is
                sent to a ProcessPoolExecutor must be picklable; a generator's results come back all at once.
            name: The stage's name in statistics and messages; by default the op's.
            output_order: ``"completion"`` passes results on as they come. ``"input"`` keeps the order of the input:
                a slow item then holds back up to ``concurrency + 2`` finished ones.

        Raises:
            TypeError, ValueError: If an argument is not as described; the message names it.
        """
        self._stages.append(Pipe(op, concurrency=concurrency, executor=executor, name=name, output_order=output_order))
        return self

    def aggregate(
        self,
        input: int | Aggregator[Any, Any],  # noqa: A002 - the public contract's name.
        /,
        *,
        drop_last: bool = False,
    ) -> Self:
        """Add a stage that gathers items.

        Args:
            input: How many items make a list, or an `Aggregator` (see `spdl.pipeline.defs`) that decides for itself.
            drop_last: Whether to drop what is left at the end, instead of passing on a shorter list (or what the
                aggregator's ``flush`` returns).

        Raises:
            TypeError, ValueError: If ``input`` is neither an int of at least 1 nor an Aggregator.
        """
        self._stages.append(Aggregate(input, drop_last=drop_last))
        return self

    def disaggregate(self) -> Self:
        """Add a stage that passes on the elements of each item one by one; None elements are dropped."""
        self._stages.append(Disaggregate())
        return self

    def add_sink(self, buffer_size: int = 3) -> Self:
        """Add the buffer that the consumer reads from.

        Args:
            buffer_size: How many finished items may wait there, at least 1. Besides these, each slot of the last
                stage may hold one.

        Raises:
            ValueError: If ``buffer_size`` is not an int of at least 1, or a sink was added already.
        """
        if self._sink is not None:
            raise ValueError(f"The pipeline already has a sink, {self._sink!r} ({callers_line()}).")
        self._sink = SinkConfig(buffer_size)
        return self

    def get_config(self) -> PipelineConfig:
        """Return the declaration.

        Raises:
            RuntimeError: If the source or the sink is missing.
        """
        if self._source is None:
            raise RuntimeError(f"The pipeline has no source: call `add_source` first ({callers_line()}).")
        if self._sink is None:
            raise RuntimeError(f"The pipeline has no sink: call `add_sink` first ({callers_line()}).")
        return PipelineConfig(self._source, tuple(self._stages), self._sink)

    def build(self, *, num_threads: int) -> Pipeline[Any]:
        """Build the pipeline. No thread is started yet.

        Args:
            num_threads: How many synchronous ops may run at once, over all stages. One more thread waits for the
                source; an event-loop thread is added if something is async.

        Raises:
            RuntimeError: If the source or the sink is missing.
            ValueError: If ``num_threads`` is not an int of at least 1.
        """
        config = self.get_config()
        return Pipeline(plan(config, num_threads=num_threads), str(config))
