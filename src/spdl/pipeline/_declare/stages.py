"""Functions that declare the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spdl._check import check_flag, check_int, check_str
from spdl.pipeline._declare.op import ONE, name_of
from spdl.pipeline._declare.records import (
    AggregateConfig,
    Aggregator,
    Collate,
    DisaggregateConfig,
    FailurePolicy,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    as_function,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spdl.pipeline._declare.records import (
        MaxFailures,
        MergeOp,
        OnFailure,
        OnTimeout,
        Op,
        OutputOrder,
        PipelineConfig,
        StageConfig,
    )


def Pipe(  # noqa: N802 - part of the public contract: it is used like a class name.
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
) -> PipeConfig[Any, Any]:
    """Declare a stage that applies ``op`` to each item. `PipelineBuilder.pipe` describes each argument in full.

    Args:
        op: Called with one item: a function, its async or generator form, or an object with ``__getitem__``.
        concurrency: How many items the stage works on at once.
        executor: An executor to run a synchronous op instead of the pipeline's threads.
        name: The stage's name in statistics and messages. The default is the name of the op.
        output_order: ``"completion"``, or ``"input"`` to keep the order of the input.
        max_failures: How many items may fail, or a `fractions.Fraction` of those tried. None leaves it to the pipeline.
        retries: How many times an item is tried again.
        retry_delay: Seconds until the first retry; each further retry waits twice as long.
        on_failure: Called with a `FailedItem` for each item that is given up.
        timeout: Seconds that one call of the op may take. None sets no limit.
        on_timeout: ``"report"``, or ``"drop"`` to give such an item up as well.

    Returns:
        The stage's declaration, for the ``pipes`` of a `PipelineConfig`. Nothing runs yet.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Pipe, PipelineConfig, SinkConfig, SourceConfig
        >>> stages = [Pipe(str.upper, concurrency=2, output_order="input")]
        >>> config = PipelineConfig(SourceConfig(["a", "b"]), stages, SinkConfig(3))
        >>> with build_pipeline(config, num_threads=2).auto_stop() as pipeline:
        ...     print(list(pipeline))
        ['A', 'B']
    """
    function = as_function(op)
    policy = FailurePolicy(max_failures, retries, retry_delay, on_failure, timeout, on_timeout)
    return PipeConfig(_named(name, name_of(function)), function, concurrency, executor, output_order, policy)


def _named(name: object, default: str) -> str:
    return default if name is None else check_str("name", name) or default


def Aggregate(  # noqa: N802 - as for Pipe.
    input: int | Aggregator[Any, Any],  # noqa: A002 - the public contract's name.
    /,
    *,
    drop_last: bool = False,
) -> AggregateConfig[Any]:
    """Declare a stage that gathers items.

    Args:
        input: How many items make a list, or an `Aggregator` that decides for itself.
        drop_last: Whether to drop the remaining items at the end, instead of passing on a shorter list.

    Returns:
        The stage's declaration, for the ``pipes`` of a `PipelineConfig`. Nothing runs yet.

    Raises:
        TypeError, ValueError: If ``input`` is neither an int of at least 1 nor an `Aggregator`.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Aggregate, PipelineConfig, SinkConfig, SourceConfig
        >>> config = PipelineConfig(SourceConfig(range(5)), [Aggregate(2, drop_last=True)], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [[0, 1], [2, 3]]
    """
    op: Aggregator[Any, Any]
    if isinstance(input, Aggregator):
        op = input
    else:
        op = Collate(check_int("input", input, least=1, accepted="an int of at least 1 or an Aggregator"))
    flag = check_flag("drop_last", drop_last)
    name = repr(op) if type(op) is Collate else type(op).__name__
    return AggregateConfig(f"aggregate(op={name}, drop_last={flag})", op, flag)


def PathVariants(  # noqa: N802 - as for Pipe.
    router: Callable[[Any], Any],
    paths: Sequence[Sequence[StageConfig]],
    name: str | None = None,
    batched: bool = False,  # noqa: FBT001, FBT002 - the public contract.
) -> PathVariantsConfig[Any]:
    """Declare a fork. `PipelineBuilder.path_variants` describes each argument in full.

    Args:
        router: Called with one item at a time; returns the index of a path. May be a coroutine function.
        paths: The stages of each path.
        name: The stage's name in statistics and messages. The default is ``path_variants``.
        batched: Whether the items are batches. The router then returns an index for each element, and each path gets
            its share.

    Returns:
        The stage's declaration, for the ``pipes`` of a `PipelineConfig`. Nothing runs yet.

    Raises:
        TypeError, ValueError: If the router is not callable, if there is no path, or if a path is empty or contains
            something other than stages.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig
        >>> fork = PathVariants(lambda x: x % 2, [[Pipe(lambda x: x // 2)], [Pipe(lambda x: -x)]])
        >>> config = PipelineConfig(SourceConfig(range(4)), [fork], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(sorted(pipeline))
        [-3, -1, 0, 1]
    """
    # The record converts the paths to tuples.
    return PathVariantsConfig(_named(name, "path_variants"), router, paths, batched)  # type: ignore[arg-type]


def Merge(  # noqa: N802 - as for Pipe.
    pipeline_configs: Sequence[PipelineConfig[Any]], op: MergeOp | None = None
) -> MergeConfig:
    """Declare that several merged pipelines replace a source.

    Their items are passed on as they come, one from each pipeline in turn. Their sinks are ignored. Either all of
    their sources are continuous or none; otherwise `build_pipeline` raises ValueError.

    Args:
        pipeline_configs: The pipelines, at least one.
        op: A coroutine function that merges them in another way. It is called once, on the event loop thread, with the
            stage's `StageInfo`, a list of `asyncio.Queue` to take from, one for each pipeline, and an `asyncio.Queue`
            to put into. The last object in a pipeline's queue is one for which `is_eof` is true. With continuous
            sources, there is one for which `is_epoch_end` is true at the end of each epoch; the op must put it out
            once for all pipelines. When the op returns, the merge has ended, and any further items of the pipelines
            are dropped. An exception that it raises fails the pipeline.

    Returns:
        The declaration, for the ``src`` of a `PipelineConfig`. Nothing runs yet.

    Raises:
        TypeError, ValueError: If there is no pipeline, if one is not a `PipelineConfig`, or if the op is not a
            coroutine function.

    Example:
        >>> from spdl.pipeline import build_pipeline, is_eof
        >>> from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig
        >>> async def one_after_the_other(info, input_queues, output_queue):
        ...     for queue in input_queues:
        ...         while not is_eof(item := await queue.get()):
        ...             await output_queue.put(item)
        >>> configs = [PipelineConfig(SourceConfig(items), [], SinkConfig(1)) for items in (["a", "b"], ["c", "d"])]
        >>> config = PipelineConfig(Merge(configs, one_after_the_other), [], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(*pipeline)
        a b c d
    """
    # The record converts them to a tuple.
    return MergeConfig(pipeline_configs, op)  # type: ignore[arg-type]


def Disaggregate() -> DisaggregateConfig[Any]:  # noqa: N802 - as for Pipe.
    """Declare a stage that passes on the elements of each item one by one. Elements that are None are dropped.

    Returns:
        The stage's declaration, for the ``pipes`` of a `PipelineConfig`. Nothing runs yet.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Disaggregate, PipelineConfig, SinkConfig, SourceConfig
        >>> config = PipelineConfig(SourceConfig([[1, 2], [3]]), [Disaggregate()], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [1, 2, 3]
    """
    return DisaggregateConfig()
