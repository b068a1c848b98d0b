"""The declaration of a pipeline: frozen records of its parts. They have no behaviour."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from inspect import iscoroutinefunction
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias

from spdl._check import check_flag, check_str, refuse

from .aggregator import Aggregator
from .context_parameter import context_parameter
from .item_context import ItemContext
from .left_open import ONE, positive_or_open
from .op import called_function, is_async, place_of
from .placement import PlacementConfig
from .policy import DEFAULT_POLICY, FailurePolicy, check_policy
from .regions import check_regions
from .type_vars import T, U

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from .stage_info import StageInfo

    MergeOp: TypeAlias = Callable[
        [StageInfo, Sequence[asyncio.Queue[Any]], asyncio.Queue[Any]], Coroutine[Any, Any, None]
    ]

__all__ = [
    "AggregateConfig",
    "DisaggregateConfig",
    "MergeConfig",
    "Op",
    "OutputOrder",
    "PathVariantsConfig",
    "PipeConfig",
    "PipelineConfig",
    "SinkConfig",
    "SourceConfig",
    "StageConfig",
    "as_function",
]


class _Subscriptable(Protocol):
    """A list, a dict, a dataset: anything with ``__getitem__``."""

    def __getitem__(self, key: Any, /) -> Any: ...


# The context is passed by keyword, so the parameter may have any name.
Op: TypeAlias = Callable[[Any], Any] | Callable[[Any, ItemContext], Any] | _Subscriptable

OutputOrder: TypeAlias = Literal["completion", "input"]
_ORDERS = ("completion", "input")
_STAGES = "a stage, as made by Pipe, Aggregate, Disaggregate or PathVariants"


def _set(record: object, **checked: object) -> None:
    """Store checked values in a frozen record."""
    for name, value in checked.items():
        # A frozen record can be initialised in no other way.
        object.__setattr__(record, name, value)


def _as_tuple(argument: str, accepted: str, value: object) -> tuple[Any, ...]:
    # A string is iterable, but its letters are never what the user meant.
    if isinstance(value, str) or not isinstance(value, Iterable):
        refuse(TypeError, argument, accepted, value)
    return tuple(value)


@dataclass(frozen=True, repr=False)
class SourceConfig(Generic[T]):
    """The source of the items; see `PipelineBuilder.add_source`.

    Args:
        source: An iterable or async iterable.
        continuous: Whether to iterate it over and over, once per epoch.
        dedicated_thread: Whether to call it from one thread of its own.

    Raises:
        ValueError: If neither ``for`` nor ``async for`` can iterate ``source``.
        TypeError: If a flag is neither True nor False.

    Example:
        >>> from spdl.pipeline.defs import SourceConfig
        >>> SourceConfig(range(3), continuous=True).continuous
        True
    """

    source: Iterable[T] | AsyncIterable[T]
    continuous: bool = False
    dedicated_thread: bool = False

    def __post_init__(self) -> None:
        # Python looks these methods up on the type: a class with `__iter__` is not itself iterable.
        kind = type(self.source)
        if getattr(kind, "__iter__", None) is None and getattr(kind, "__aiter__", None) is None:
            refuse(ValueError, "source", "an iterable or an async iterable", self.source, _how_to_iterate(self.source))
        _set(
            self,
            continuous=check_flag("continuous", self.continuous),
            dedicated_thread=check_flag("dedicated_thread", self.dedicated_thread),
        )

    def __repr__(self) -> str:
        flags = [name for name in ("continuous", "dedicated_thread") if getattr(self, name)]
        options = "".join(f", {name}=True" for name in flags)
        if isinstance(self.source, GeneratorType | AsyncGeneratorType):
            return f"source({place_of(self.source)}{options})"
        return f"source({type(self.source).__qualname__} at 0x{id(self.source):x}{options})"


def _how_to_iterate(source: object) -> str:
    if isinstance(source, type):
        return "Make an instance of it."
    if callable(source):
        return "If it is a function that makes one, call it."
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return "For a map-style dataset, add `range(len(dataset))` as the source and the dataset by `pipe`."
    return ""


@dataclass(frozen=True, repr=False)
class PipeConfig(Generic[T, U]):
    """A stage that applies an op to each item. Make it with `Pipe`.

    Args:
        name: The stage's name in statistics and messages.
        op: Called with one item.
        concurrency: How many items the stage works on at once.
        executor: Where a synchronous op runs instead of the pipeline's threads.
        output_order: ``"completion"`` or ``"input"``.
        policy: The policy for items that fail or take too long. `Pipe` makes it from its arguments.

    Raises:
        TypeError, ValueError: If an argument is not as `PipelineBuilder.pipe` describes it.

    Example:
        >>> from spdl.pipeline.defs import Pipe
        >>> stage = Pipe(str.upper, concurrency=4)
        >>> stage.name, stage.concurrency
        ('upper', 4)
    """

    name: str
    op: Callable[[T], U]
    concurrency: int = ONE
    executor: Executor | None = None
    output_order: OutputOrder = "completion"
    policy: FailurePolicy = DEFAULT_POLICY

    def __post_init__(self) -> None:
        op = as_function(self.op)
        context_parameter(op)
        if self.output_order not in _ORDERS:
            refuse(ValueError, "output_order", f"one of {_ORDERS}", self.output_order)
        if self.executor is not None:
            if not isinstance(self.executor, Executor):
                remedy = "A pool's `get_executor()` makes one." if hasattr(self.executor, "get_executor") else ""
                refuse(TypeError, "executor", "a concurrent.futures.Executor or None", self.executor, remedy)
            if is_async(op):
                remedy = f"The op of stage {self.name!r} is async, so it runs on the event loop."
                refuse(ValueError, "executor", "None for an async op", self.executor, remedy)
        if not isinstance(self.policy, FailurePolicy):
            refuse(TypeError, "policy", "a FailurePolicy", self.policy)
        _set(
            self,
            name=check_str("name", self.name),
            op=op,
            concurrency=positive_or_open("concurrency", self.concurrency),
            policy=check_policy(self.policy),
        )

    def __repr__(self) -> str:
        parts = [f"concurrency={self.concurrency}"]
        if self.executor is not None:
            parts.append(f"executor={type(self.executor).__name__}")
        if self.output_order != "completion":
            parts.append(f"output_order={self.output_order!r}")
        if self.policy.max_failures is not None:
            parts.append(f"max_failures={self.policy.max_failures}")
        if self.policy.retries:
            parts.append(f"retries={self.policy.retries}")
        if self.policy.timeout is not None:
            parts.append(f"timeout={self.policy.timeout:g}, on_timeout={self.policy.on_timeout!r}")
        parts.append(f"op={place_of(self.op)}")
        return f"{self.name}({', '.join(parts)})"


def as_function(op: object) -> Callable[[Any], Any]:
    """Return the function that applies an op: the op itself, or its ``__getitem__``.

    Raises:
        TypeError: If it is neither callable nor has ``__getitem__``.
    """
    if callable(op):
        return op
    function: object = getattr(op, "__getitem__", None)
    if not callable(function):
        called = isinstance(op, CoroutineType | GeneratorType | AsyncGeneratorType)
        remedy = "Pass the function itself, not what it returned." if called else ""
        refuse(TypeError, "op", "callable or have `__getitem__`", op, remedy)
    return function


@dataclass(frozen=True, repr=False)
class AggregateConfig(Generic[T]):
    """A stage that gathers items. Make it with `Aggregate`.

    Args:
        name: The stage's name in statistics and messages.
        op: Decides when a batch is complete.
        drop_last: Whether to drop the remaining items at the end.

    Raises:
        TypeError: If the op is not an Aggregator, the name not a str, or the flag neither True nor False.

    Example:
        >>> from spdl.pipeline.defs import Aggregate
        >>> Aggregate(32, drop_last=True).op.n
        32
    """

    name: str
    op: Aggregator[Any, T]
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.op, Aggregator):
            refuse(TypeError, "op", "an Aggregator", self.op)
        _set(self, name=check_str("name", self.name), drop_last=check_flag("drop_last", self.drop_last))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class DisaggregateConfig(Generic[T]):
    """A stage that emits the elements of each item one by one. Make it with `Disaggregate`.

    Args:
        name: The stage's name in statistics and messages.

    Raises:
        TypeError: If the name is not a str.

    Example:
        >>> from spdl.pipeline.defs import Disaggregate
        >>> Disaggregate().name
        'disaggregate'
    """

    name: str = "disaggregate"

    def __post_init__(self) -> None:
        check_str("name", self.name)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class SinkConfig(Generic[T]):
    """The buffer that the consumer reads from.

    Args:
        buffer_size: How many finished items may wait there, at least 1.

    Raises:
        ValueError: If ``buffer_size`` is not an int of at least 1.

    Example:
        >>> from spdl.pipeline.defs import SinkConfig
        >>> SinkConfig(3)
        sink(buffer_size=3)
    """

    buffer_size: int

    def __post_init__(self) -> None:
        _set(self, buffer_size=positive_or_open("buffer_size", self.buffer_size, wrong_type=ValueError))

    def __repr__(self) -> str:
        return f"sink(buffer_size={self.buffer_size})"


@dataclass(frozen=True, repr=False)
class PathVariantsConfig(Generic[T]):
    """A fork: a router chooses each item's path, and the paths' results are merged. Make it with `PathVariants`.

    Args:
        name: The stage's name in statistics and messages.
        router: Returns the index of the path that an item takes, or for a batch an index for each element.
        paths: The stages of each path.
        batched: Whether the items are batches. Each path then gets its share of each batch.

    Raises:
        TypeError: If the paths are not a sequence of sequences, the name not a str, or the flag neither True nor False.
        ValueError: If the router is not callable, if there is no path, or if a path is empty or contains something
            other than stages.

    Example:
        >>> from spdl.pipeline.defs import PathVariants, Pipe
        >>> len(PathVariants(bool, [[Pipe(str)], [Pipe(repr), Pipe(len)]]).paths)
        2
    """

    name: str
    router: Callable[[Any], Any]
    paths: tuple[tuple[StageConfig, ...], ...]
    batched: bool = False

    def __post_init__(self) -> None:
        if not callable(self.router):
            refuse(ValueError, "router", "callable", self.router)
        paths = []
        for index, path in enumerate(_as_tuple("paths", "a sequence of sequences of stages", self.paths)):
            argument = f"paths[{index}]"
            stages = _as_tuple(argument, "a sequence of stages", path)
            if not stages:
                refuse(ValueError, argument, "a sequence of at least one stage", path)
            for position, stage in enumerate(stages):
                if not _is_stage(stage):
                    refuse(ValueError, f"{argument}[{position}]", _STAGES, stage)
            paths.append(stages)
        if not paths:
            refuse(ValueError, "paths", "a sequence of at least one path", self.paths)
        _set(
            self,
            name=check_str("name", self.name),
            paths=tuple(paths),
            batched=check_flag("batched", self.batched),
        )

    def __repr__(self) -> str:
        batched = ", batched=True" if self.batched else ""
        lines = [f"{self.name}(router={place_of(self.router)}{batched})"]
        for index, path in enumerate(self.paths):
            lines.append(f"  path {index}")
            lines += [_indented(stage, 4) for stage in path]
        return "\n".join(lines)


StageConfig: TypeAlias = PipeConfig[Any, Any] | AggregateConfig[Any] | DisaggregateConfig[Any] | PathVariantsConfig[Any]


def _is_stage(value: object) -> bool:
    """Return whether a value is a record that declares a stage."""
    return isinstance(value, PipeConfig | AggregateConfig | DisaggregateConfig | PathVariantsConfig)


@dataclass(frozen=True, repr=False)
class MergeConfig:
    """Several merged pipelines that replace a source. Make it with `Merge`.

    Args:
        pipeline_configs: The pipelines, at least one. Their sinks are ignored.
        op: A coroutine function that merges them; see `Merge`. By default one item from each is taken in turn.

    Raises:
        TypeError: If ``pipeline_configs`` is not a sequence of `PipelineConfig`, or ``op`` not a coroutine function.
        ValueError: If there is no pipeline.

    Example:
        >>> from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig
        >>> branches = [PipelineConfig(SourceConfig(word), [], SinkConfig(1)) for word in ("ab", "cd")]
        >>> len(Merge(branches).pipeline_configs)
        2
    """

    pipeline_configs: tuple[PipelineConfig[Any], ...]
    op: MergeOp | None = None

    def __post_init__(self) -> None:
        configs = _as_tuple("pipeline_configs", "a sequence of PipelineConfig", self.pipeline_configs)
        if not configs:
            refuse(ValueError, "pipeline_configs", "a sequence of at least one PipelineConfig", self.pipeline_configs)
        for index, config in enumerate(configs):
            if not isinstance(config, PipelineConfig):
                remedy = "A builder's `get_config()` makes one." if hasattr(config, "get_config") else ""
                refuse(TypeError, f"pipeline_configs[{index}]", "a PipelineConfig", config, remedy)
        if self.op is not None and not iscoroutinefunction(called_function(self.op)):
            refuse(TypeError, "op", "a coroutine function of (info, input_queues, output_queue), or None", self.op)
        _set(self, pipeline_configs=configs)

    def __repr__(self) -> str:
        name = "merge" if self.op is None else f"merge(op={place_of(self.op)})"
        return "\n".join([name, *(_indented(config, 2) for config in self.pipeline_configs)])


@dataclass(frozen=True, repr=False)
class PipelineConfig(Generic[T]):
    """A whole pipeline: a source or merged pipelines, the stages in order, and a sink.

    Args:
        src: The source of the items.
        pipes: The stages, from the source to the sink, and the marks of regions between them.
        sink: The buffer that the consumer reads from.

    Raises:
        TypeError: If an argument is of another type.
        ValueError: If a region is empty, or not closed.
        RuntimeError: If a region is to run in sub-interpreters.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Pipe, PipelineConfig, SinkConfig, SourceConfig
        >>> config = PipelineConfig(SourceConfig([1, 2]), [Pipe(str)], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        ['1', '2']
    """

    src: SourceConfig[Any] | MergeConfig
    pipes: Sequence[StageConfig | PlacementConfig]
    sink: SinkConfig[T]

    def __post_init__(self) -> None:
        if not isinstance(self.src, SourceConfig | MergeConfig):
            refuse(TypeError, "src", "a SourceConfig or the result of Merge", self.src)
        pipes = _as_tuple("pipes", "a sequence of stages", self.pipes)
        for index, stage in enumerate(pipes):
            if not (_is_stage(stage) or isinstance(stage, PlacementConfig)):
                refuse(TypeError, f"pipes[{index}]", _STAGES, stage)
        check_regions(pipes)
        if not isinstance(self.sink, SinkConfig):
            refuse(TypeError, "sink", "a SinkConfig", self.sink)
        _set(self, pipes=pipes)

    def __repr__(self) -> str:
        return "\n".join(["PipelineConfig", *(_indented(part, 2) for part in (self.src, *self.pipes, self.sink))])


def _indented(part: object, width: int) -> str:
    return textwrap.indent(repr(part), " " * width)
