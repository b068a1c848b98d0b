"""Declares and builds a pipeline with a chain of method calls."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self

from spdl._locate import callers_line
from spdl._not_here import refuses
from spdl.pipeline._build import build_pipeline
from spdl.pipeline._declare.op import ONE, THREE, T, U
from spdl.pipeline._declare.placement import ExecutorConfig, MainProcess, PlacementConfig
from spdl.pipeline._declare.records import MergeConfig, PipelineConfig, SinkConfig, SourceConfig
from spdl.pipeline._declare.stages import Aggregate, Disaggregate, PathVariants, Pipe
from spdl.pipeline._pipeline import Pipeline

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spdl.pipeline._declare.records import (
        Aggregator,
        MaxFailures,
        MergeOp,
        OnFailure,
        OnTimeout,
        Op,
        OutputOrder,
        StageConfig,
    )
    from spdl.pipeline._graph import QueueClass, TaskHookFactory


class PipelineBuilder(Generic[T, U]):
    """Declares a pipeline stage by stage, and builds it.

    Its type parameters are the types of the source's items and of the pipeline's results. All methods except
    `get_config` and `build` return the builder itself.

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
        self._source: SourceConfig[Any] | MergeConfig | None = None
        self._stages: list[StageConfig | PlacementConfig] = []
        self._sink: SinkConfig[Any] | None = None

    def add_source(
        self,
        source: Iterable[Any] | AsyncIterable[Any],
        *,
        continuous: bool = False,
        dedicated_thread: bool = False,
    ) -> Self:
        """Set the source of the items.

        Args:
            source: An iterable or async iterable. If it is both, it is iterated as an async iterable. It is iterated
                once, when the pipeline runs. The calls of ``iter()`` and ``next()`` never overlap, but may come from
                different threads. They run at most 2 items ahead of those that the first stage can start at once. If
                the pipeline stops early, or the iterator raises, its ``close()`` is called once, if it has one, and
                `Pipeline.stop` waits for it. ``aclose()`` of an async iterator is called in any case. An exception of
                the iterator fails the pipeline.
            continuous: Whether to iterate the source over and over, once per epoch. Iterating it again must start from
                the beginning, which a generator cannot do. The pipeline begins the next epoch while the consumer
                reads this one. Batches never span epochs, and each iterator over the pipeline ends with its epoch.
            dedicated_thread: Whether to call ``iter()``, ``next()`` and ``close()`` from its own thread. This is
                for iterators that are bound to a thread, such as cursors of sqlite3. Each item is then handed to
                another thread, which costs some 20 microseconds. It has no effect on an async source.

        Raises:
            ValueError: If ``source`` cannot be iterated or is a str, bytes or bytearray; if a source was added already.
            TypeError: If a flag is neither True nor False.
        """
        self._refuse_second_source()
        self._source = SourceConfig(source, continuous, dedicated_thread)
        return self

    def _refuse_second_source(self) -> None:
        if self._source is not None:
            raise ValueError(f"The pipeline already has a source, {self._source!r} ({callers_line()}).")

    def merge(
        self, pipelines: Sequence[PipelineBuilder[Any, Any] | PipelineConfig[Any]], *, op: MergeOp | None = None
    ) -> Self:
        """Set several pipelines as the source of the items.

        Their items are passed on as they come, one from each pipeline in turn. Either all of their sources are
        continuous or none; otherwise `build` raises ValueError.

        Args:
            pipelines: The pipelines, at least one: builders with a source and stages, or declarations. They need no
                sink; if they have one, it is ignored.
            op: A coroutine function that merges them in another way; see `spdl.pipeline.defs.Merge`.

        Raises:
            RuntimeError: If a builder has no source.
            ValueError: If there is no pipeline, or if a source was added already.
            TypeError: If `pipelines` is not a sequence of builders and declarations, or `op` not a coroutine function.

        Example:
            >>> from spdl.pipeline import PipelineBuilder
            >>> words = PipelineBuilder().add_source(["a", "b"]).pipe(str.upper)
            >>> numbers = PipelineBuilder().add_source([1, 2])
            >>> pipeline = PipelineBuilder().merge([words, numbers]).add_sink().build(num_threads=1)
            >>> with pipeline.auto_stop():
            ...     print(sorted(map(str, pipeline)))
            ['1', '2', 'A', 'B']
        """
        self._refuse_second_source()
        self._source = MergeConfig(_declarations(pipelines), op)
        return self

    @refuses({"num_threads": "use `concurrency`", "num_workers": "use `concurrency`"})
    def pipe(
        self,
        op: Op,
        /,
        *,
        concurrency: int = ONE,
        executor: Executor | None = None,
        name: str | None = None,
        output_order: OutputOrder = "completion",
        max_failures: MaxFailures | None = None,
        retries: int = 0,
        retry_delay: float = 0.1,
        on_failure: OnFailure | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "report",
    ) -> Self:
        """Add a stage that applies an op to each item.

        The op's results are passed on, except that None drops the item. A generator's results are passed on one by
        one. If an op raises, its item is dropped, counted and logged: a stage's first 10 failures with tracebacks, then
        fewer and fewer. The other items continue. `KeyboardInterrupt`, `SystemExit` and similar exceptions fail the
        pipeline.

        Args:
            op: Called with one item. It is a function, a generator function, an async form of either, any other
                callable, or an object with ``__getitem__`` (such as a list or a dict). Async ops run on one event loop
                thread, so they must not block. All others run on the pipeline's worker threads, and gain from
                concurrency as far as they release the GIL.
            concurrency: How many items the stage works on at once. Synchronous ops without an executor are also bounded
                by the ``num_threads`` of `build`, which all stages share.
            executor: Runs a synchronous op instead of the pipeline's threads, up to ``concurrency`` items at once. Set
                ``concurrency`` to at least its number of workers. The pipeline does not shut it down. Everything that
                is sent to a ProcessPoolExecutor must be picklable, and a generator's results come back all at once.
            name: The stage's name in statistics and messages. If it is None or empty, this is the op's name.
            output_order: ``"completion"`` passes results on as they come. ``"input"`` keeps the order of the input:
                a slow item then holds back up to ``concurrency + 2`` finished items.
            max_failures: How many items may fail before the pipeline fails: an int, or a `fractions.Fraction`, above 0
                and at most 1, of the items tried. From the 100th item on, a fraction is checked whenever an item fails,
                and at the end of the input and of each epoch. A negative int sets no limit. None leaves it to the
                ``max_failures`` of `build`, which does not count the failures of stages with their own.
            retries: How many times an item is tried again after its op raised. While it waits for a retry, it counts
                towards ``concurrency`` but takes no thread. A generator is not tried again once it has begun.
            retry_delay: Seconds until the first retry; each further retry waits twice as long.
            on_failure: Called with a `FailedItem` for each item that is given up, in the thread that noticed the
                failure: a worker, the event loop thread, or the thread that watches the timeouts. Several calls may run
                at once, so it should be fast and must be thread-safe. An `Exception` that it raises is logged; any
                other exception fails the pipeline.
            timeout: Seconds that one call of the op may take, or that a generator may take for one result. None sets no
                limit. Each retry has its own timeout. In a process pool, or an executor that is not a thread pool, it
                begins when the item is handed over, so waiting in the executor counts. In a process pool, a generator's
                results count together. With task hooks, the hooks and the wait for a thread count as well.
            on_timeout: The action after a timeout. ``"report"`` logs the item and the line that the op is at, counts
                the timeout, and continues waiting. ``"drop"`` also gives the item up as failed, without retries, and
                discards its result if one comes. An async op is then cancelled. A thread cannot be interrupted: it is
                left to its op, and a new thread replaces it. If there are more than ``2 * num_threads`` such threads at
                a time, the pipeline fails. A worker of your executor stays busy until the op returns.

        Raises:
            TypeError, ValueError: If an argument is not as described; the message names it.
        """
        stage = Pipe(
            op,
            concurrency=concurrency,
            executor=executor,
            name=name,
            output_order=output_order,
            max_failures=max_failures,
            retries=retries,
            retry_delay=retry_delay,
            on_failure=on_failure,
            timeout=timeout,
            on_timeout=on_timeout,
        )
        self._stages.append(stage)
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
            drop_last: Whether to drop the remaining items at the end, instead of passing on a shorter list (or the
                result of the aggregator's ``flush``).

        Raises:
            TypeError, ValueError: If ``input`` is neither an int of at least 1 nor an Aggregator.
        """
        self._stages.append(Aggregate(input, drop_last=drop_last))
        return self

    def disaggregate(self) -> Self:
        """Add a stage that passes on the elements of each item one by one. Elements that are None are dropped."""
        self._stages.append(Disaggregate())
        return self

    def path_variants(
        self,
        router: Callable[[Any], Any],
        paths: Sequence[Sequence[StageConfig]],
        name: str | None = None,
        batched: bool = False,  # noqa: FBT001, FBT002 - the public contract.
    ) -> Self:
        """Add a fork: each item takes one of several paths, and the paths' results are merged as they come.

        Args:
            router: Called with one item at a time, in order; returns the index of a path. May be a coroutine function.
                If it raises, or names a path that does not exist, the pipeline fails. A slow path holds up the others
                only once 32 items wait for it.
            paths: The stages of each path, made by `Pipe`, `Aggregate`, `Disaggregate` or `PathVariants` of
                `spdl.pipeline.defs`.
            name: The stage's name in statistics and messages. The default is ``path_variants``.
            batched: Whether the items are batches. The router then returns one index for each element of the batch. For
                every batch, each path gets a list of its elements, which may be empty, and passes on lists. The lists
                of a batch are joined in the order of the paths, and batches stay in the order of the fork. Empty
                batches are dropped. Ops in the paths may drop, fail or multiply their lists; the paths stay in step.

        Raises:
            ValueError: If the router is not callable, if there is no path, or if a path is empty or contains something
                other than stages.
            TypeError: If another argument has the wrong type.
        """
        self._stages.append(PathVariants(router, paths, name, batched))
        return self

    def to(self, target: ExecutorConfig | MainProcess, /, *, buffer_size: int = ONE) -> Self:
        """Say where the stages after this place run: in the workers of a region, or in this process again.

        The stages up to the next `to` are fused: each worker runs them as its own pipeline, and an item crosses to
        a worker once and back once. Items that cross, and the ops, must be picklable, unless the workers are threads.
        Items are dealt to whichever worker has a place for them, so their order is lost, unless the region's stages
        keep it by ``output_order="input"``. An ``aggregate`` inside gathers the items that came to its worker. A
        stage's ``concurrency`` and ``timeout`` hold in each worker; limits of failures hold for all of them together.
        An ``executor`` of a stage inside is left out: the ops run in threads of the worker. Failures,
        `Pipeline.statistics` and states to resume from are as for stages that run here.

        Args:
            target: A `ProcessPoolExecutorConfig`, an `InterpreterPoolExecutorConfig` or a `ThreadPoolExecutorConfig` of
                `spdl.pipeline.defs` opens a region, which closes the one before. ``MAIN_PROCESS`` closes it. The
                workers start with the pipeline and end with it.
            buffer_size: How many items at most cross at once at this place, at least 1. They never wait for more to
                come. By default the pipeline chooses: as many as take six milliseconds together, at most 64.

        Raises:
            TypeError: If the target is something else, such as a live executor.
            ValueError: If ``buffer_size`` is less than 1.

        Example:
            >>> from spdl.pipeline import PipelineBuilder
            >>> from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
            >>> builder = PipelineBuilder().add_source([4, 9])
            >>> builder = builder.to(ProcessPoolExecutorConfig(1)).pipe(float).pipe(str).to(MAIN_PROCESS).add_sink()
            >>> with builder.build(num_threads=1).auto_stop() as pipeline:
            ...     print(list(pipeline))
            ['4.0', '9.0']
        """
        self._stages.append(PlacementConfig(target, buffer_size=buffer_size))
        return self

    def add_sink(self, buffer_size: int = THREE) -> Self:
        """Add the buffer that the consumer reads from.

        Args:
            buffer_size: How many finished items may wait there, at least 1. Besides these, the last stage may hold as
                many finished items as its concurrency.

        Raises:
            ValueError: If ``buffer_size`` is not an int of at least 1, or if a sink was added already.
        """
        if self._sink is not None:
            raise ValueError(f"The pipeline already has a sink, {self._sink!r} ({callers_line()}).")
        self._sink = SinkConfig(buffer_size)
        return self

    def get_config(self) -> PipelineConfig[U]:
        """Return the declaration.

        Raises:
            RuntimeError: If the source or the sink is missing, or if a region should run in sub-interpreters, and this
                Python has none.
            ValueError: If a region is empty, or not closed by `to`.
        """
        if self._source is None:
            raise RuntimeError(f"The pipeline has no source: call `add_source` first ({callers_line()}).")
        if self._sink is None:
            raise RuntimeError(f"The pipeline has no sink: call `add_sink` first ({callers_line()}).")
        return PipelineConfig(self._source, tuple(self._stages), self._sink)

    @refuses({"concurrency": "use `num_threads`", "num_workers": "use `num_threads`"})
    def build(
        self,
        *,
        num_threads: int | None = None,
        max_failures: MaxFailures = -1,
        report_stats_interval: float = -1,
        queue_class: QueueClass | None = None,
        task_hook_factory: TaskHookFactory | None = None,
        stage_id: int = 0,
        use_thread_output_queue: bool = False,
        autotune: bool = False,
        max_bytes: int | None = None,
    ) -> Pipeline[Any]:
        """Build the pipeline. No thread is started yet.

        Args:
            num_threads: How many synchronous ops may run at once, over all stages without an executor. There is one
                more thread for each source, and an event loop thread if something is async. One more thread is added if
                the results of the event loop or of an executor would otherwise wait for synchronous ops. The default,
                or None, is 4 more than the cores that the process may use, so that ops that wait for data leave no core
                idle; at most 32. The process's affinity and the CPU quota of its control groups say how many cores it
                may use, in a container as well. No more threads are started than the stages'
                ``concurrency`` can keep busy. If several processes run on one machine, such as one for each GPU, each
                of them counts all cores, so give each its share.
            max_failures: How many items may fail, over all stages without their own ``max_failures``, before the
                pipeline fails: an int, or a `fractions.Fraction` of the items tried. An item counts as tried
                once in each of these stages: with five of them, a maximum of 2 % lets 10 % of the source's items fail.
                By default there is no limit, but a pipeline in which every item failed raises nevertheless.
            report_stats_interval: Seconds between reports on each stage and queue. Each report covers the time since
                the last one. Reports are lines of level INFO, from the loggers ``spdl.pipeline.tasks`` and
                ``spdl.pipeline.queues``. With 0 or less, each stage and queue logs one line at its end, which covers
                the whole run. The interval applies to the process's default hook and queue; a class or factory given
                here has its own.
            queue_class: A class derived from `AsyncQueue`, or a function that makes one. It is called with a
                `StageInfo` and ``buffer_size=`` for the output of each source and stage, and for the sink. The queues
                carry the items, on the event loop thread. None takes the process's default (see
                `spdl.pipeline.config`), which costs nothing unless it was changed.
            task_hook_factory: Called with the `StageInfo` of each stage; returns a list of `TaskHook`, which may be
                empty. The event loop thread manages the tasks of stages with hooks. None takes the process's default
                (see `spdl.pipeline.config`), which costs nothing unless it was changed.
            stage_id: The number of the first stage in messages, which name stages like ``0:1:decode[4]``: pipeline,
                stage number, name and concurrency.
            use_thread_output_queue: Accepted for compatibility, without effect: the consumer always reads from its own
                thread.
            autotune: Whether the pipeline chooses its limits while it runs: the ``concurrency`` of each stage that has
                none given, and ``num_threads`` if that is None. Numbers that you give stay unchanged; give a
                ``concurrency`` of 1 to a stage that must not run twice at once, and ``output_order="input"`` to one
                that must keep the order. Stages of regions get the same number in each worker. See `Pipeline.tuned`.
            max_bytes: How many bytes the items in the pipeline may keep, in arrays, tensors, buffers and
                strings. An op, or the source, is asked for another result only if it will fit. An item that does
                not fit alone passes alone, with one warning. See the page on the execution model for what is promised.
                By default there is no such limit, and nothing is weighed. It does not go together with ``queue_class``,
                regions, or your own merge.

        Returns:
            The pipeline. It starts at `Pipeline.start`, at `Pipeline.auto_stop`, or at the first read.

        Raises:
            RuntimeError: If the source or the sink is missing.
            TypeError, ValueError: If an argument is not as described; the message names it.
        """
        return build_pipeline(
            self.get_config(),
            num_threads=num_threads,
            max_failures=max_failures,
            report_stats_interval=report_stats_interval,
            queue_class=queue_class,
            task_hook_factory=task_hook_factory,
            stage_id=stage_id,
            use_thread_output_queue=use_thread_output_queue,
            autotune=autotune,
            max_bytes=max_bytes,
        )


def _declarations(pipelines: Any) -> Any:
    if not isinstance(pipelines, Iterable) or isinstance(pipelines, str):
        # The record says what is accepted.
        return pipelines
    return tuple(_declaration(each) if isinstance(each, PipelineBuilder) else each for each in pipelines)


def _declaration(builder: PipelineBuilder[Any, Any]) -> PipelineConfig[Any]:
    """Return what a builder declares, which needs no sink to be merged."""
    source, stages, sink = builder._source, builder._stages, builder._sink  # noqa: SLF001 - this module's class.
    if source is None:
        raise RuntimeError(f"A pipeline to be merged has no source: call `add_source` first ({callers_line()}).")
    return PipelineConfig(source, tuple(stages), sink or SinkConfig(1))
