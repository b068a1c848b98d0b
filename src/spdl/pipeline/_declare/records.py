"""The declaration of a pipeline: frozen records of its parts and their policies. They have no behaviour."""

from __future__ import annotations

import os
import textwrap
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias

from spdl._check import check_flag, check_int, check_max_failures, check_seconds, check_str, positive, refuse
from spdl.pipeline._declare.op import (
    ONE,
    FailedItem,
    ItemContext,
    T,
    U,
    called_function,
    context_parameter,
    is_async,
    place_of,
    positive_or_open,
)
from spdl.pipeline._declare.placement import PlacementConfig, check_regions

if TYPE_CHECKING:
    import asyncio
    from fractions import Fraction

    MergeOp: TypeAlias = (
        "Callable[[StageInfo, Sequence[asyncio.Queue[Any]], asyncio.Queue[Any]], Coroutine[Any, Any, None]]"
    )

MaxFailures: TypeAlias = "int | Fraction"
OnFailure: TypeAlias = "Callable[[FailedItem], object]"
OnTimeout: TypeAlias = Literal["report", "drop"]

_ON_TIMEOUT = ("report", "drop")


def _set(record: object, **checked: object) -> None:
    for name, value in checked.items():
        # A frozen record can be initialised in no other way.
        object.__setattr__(record, name, value)


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """A stage's own policy, as `PipelineBuilder.pipe` describes it. It may have no limit or timeout of its own."""

    max_failures: MaxFailures | None = None
    retries: int = 0
    retry_delay: float = 0.1
    on_failure: OnFailure | None = None
    timeout: float | None = None
    on_timeout: OnTimeout = "report"

    def __post_init__(self) -> None:
        if self.on_timeout not in _ON_TIMEOUT:
            refuse(ValueError, "on_timeout", f"one of {_ON_TIMEOUT}", self.on_timeout)
        if self.on_failure is not None and not callable(self.on_failure):
            refuse(TypeError, "on_failure", "callable or None", self.on_failure)
        _set(
            self,
            max_failures=None if self.max_failures is None else check_max_failures(self.max_failures),
            retries=check_int("retries", self.retries, least=0),
            retry_delay=check_seconds("retry_delay", self.retry_delay, above_zero=False),
            timeout=None if self.timeout is None else check_seconds("timeout", self.timeout, above_zero=True),
        )


# No maximum for this stage alone, no retries, no callback, no timeout.
DEFAULT_POLICY = FailurePolicy()


# The names of the ends of a pipeline, which are not stages.
SOURCE = "src"
SINK = "sink"


@dataclass(frozen=True, slots=True)
class StageInfo:
    """The identity of a stage in messages. ``str()`` gives ``"0:1:decode[4]"``.

    Attributes:
        pipeline_id: The pipeline's number, counted in this process from 0.
        stage_id: The stage's number in the pipeline, counted from the sources on. A merge comes before the pipelines
            that it merges.
        stage_name: The stage's name. Other stages of the pipeline may have the same name.
        concurrency: How many items the stage was declared to work on at once, if more than one.

    Example:
        >>> from spdl.pipeline import StageInfo
        >>> str(StageInfo(0, "1", "decode", 4))
        '0:1:decode[4]'
    """

    pipeline_id: int
    stage_id: str
    stage_name: str
    concurrency: int | None = None

    def __str__(self) -> str:
        concurrency = "" if self.concurrency is None else f"[{self.concurrency}]"
        return f"{self.pipeline_id}:{self.stage_id}:{self.stage_name}{concurrency}"


class Aggregator(ABC, Generic[T, U]):
    """A stage that gathers items and decides when to pass something on.

    The engine calls it from one thread at a time, in the order in which the items arrive. An exception that it raises
    fails the pipeline, since the gathered items would be lost otherwise. All pipelines that are built from one
    declaration share this object. If a pipeline is stopped early, the gathered items stay in it.

    An aggregator that keeps something past a result must say what, or else `Pipeline.state_dict` raises RuntimeError
    as soon as it has seen that. One that only puts whole items into lists, in its own order say, defines
    `held_back`. One that makes something of them, or splits them, so that a part of one is in this result and the rest
    in the next, has two methods more:

    * ``state_dict()`` returns what is left over after the result that was returned last: JSON, which may have arrays
      of numpy and tensors in it. It is called after each result and copied, so it should be small.
    * ``load_state_dict(state)`` takes it back, with lists in the place of tuples.

    The same items after the same leftover must make the same results. An aggregator with these two needs no
    `held_back`.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> from spdl.pipeline.defs import Aggregator
        >>> class Paragraph(Aggregator):
        ...     lines = ()
        ...
        ...     def accumulate(self, line):
        ...         if line:
        ...             self.lines += (line,)
        ...         return None if line else self.flush()
        ...
        ...     def flush(self):
        ...         lines, self.lines = self.lines, ()
        ...         return " ".join(lines) or None
        >>> builder = PipelineBuilder().add_source(["a", "b", "", "c"]).aggregate(Paragraph()).add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        ['a b', 'c']
        >>> class Pack(Aggregator):
        ...     left = ""
        ...
        ...     def accumulate(self, text):
        ...         text, whole = self.left + text, len(self.left + text) // 4 * 4
        ...         self.left = text[whole:]
        ...         return text[:whole] or None
        ...
        ...     def flush(self):
        ...         left, self.left = self.left, ""
        ...         return left or None
        ...
        ...     def state_dict(self):
        ...         return {"left": self.left}
        ...
        ...     def load_state_dict(self, state):
        ...         self.left = state["left"]
        >>> def build():
        ...     builder = PipelineBuilder().add_source(["abc", "def", "gh"]).aggregate(Pack()).add_sink()
        ...     return builder.build(num_threads=1)
        >>> with build().auto_stop() as pipeline:
        ...     print(pipeline.get_item())
        ...     state = pipeline.state_dict()
        abcd
        >>> resumed = build()
        >>> resumed.load_state_dict(state)
        >>> with resumed.auto_stop():
        ...     print(list(resumed))
        ['efgh']
    """

    @abstractmethod
    def accumulate(self, item: T) -> U | None:
        """Take one item. Return what to pass on, or None to wait for more.

        Raises:
            Exception: Any exception fails the pipeline, since the gathered items would be lost otherwise.
        """

    @abstractmethod
    def flush(self) -> U | None:
        """Return the remaining items at the end of the input or of an epoch, or None, and start afresh.

        It is called with ``drop_last=True`` too, and its result is then dropped.

        Raises:
            Exception: Any exception fails the pipeline.
        """

    def held_back(self) -> Iterable[T] | None:
        """Return the items that are kept past the result that `accumulate` has just returned.

        An aggregator that sorts items into several batches, say, has others left when it returns one. Return the very
        objects that `accumulate` was given. The default says that none are kept.

        A resumed aggregator gets these items again, in any order: each comes once, maybe in another batch than without
        the cut. So what it returns, once it has kept an item, must show where each item is:

        * A result is one of the items, or a list (or a tuple, dict or list of lists) of exactly those that have come
          and are not kept. An item is in one result, so a sliding window is refused. Arrays are made of the items in a
          stage after it.
        * ``flush`` returns all that is kept. With ``drop_last=True`` the rest is dropped.

        If a result or a ``flush`` is seen not to be so, `Pipeline.state_dict` raises RuntimeError. A resumed pipeline
        fails at the end of the epoch in which it was cut, if ``flush`` drops something then. As long as only a part of
        a result was received, since it was taken apart, `Pipeline.state_dict` raises unless the result is an item, a
        list, or nothing was kept. It raises, too, if the aggregator is seen to keep texts, arrays or lists that are
        none of these items. ``state_dict`` and ``load_state_dict`` ask for nothing of all that.

        Raises:
            Exception: Any exception fails the pipeline.
        """
        return None


class Collate(Aggregator[T, list[T]]):
    """Gather items into lists of ``n``.

    Args:
        n: How many items make a batch, at least 1.

    Raises:
        TypeError, ValueError: If ``n`` is not an int of at least 1.

    Example:
        >>> batcher = Collate(2)
        >>> batcher.accumulate("a"), batcher.accumulate("b"), batcher.flush()
        (None, ['a', 'b'], None)
    """

    def __init__(self, n: int) -> None:
        self.n = positive("n", n)
        self._batch: list[T] = []

    def accumulate(self, item: T) -> list[T] | None:
        """Add the item, and return the batch once it is full. Never raises."""
        self._batch.append(item)
        return self._take() if len(self._batch) >= self.n else None

    def flush(self) -> list[T] | None:
        """Return the last, shorter batch, or None if there is none."""
        return self._take() if self._batch else None

    def _take(self) -> list[T]:
        batch, self._batch = self._batch, []
        return batch

    def __repr__(self) -> str:
        return f"collate({self.n})"


class _Subscriptable(Protocol):
    """A list, a dict, a dataset: anything with ``__getitem__``."""

    def __getitem__(self, key: Any, /) -> Any: ...


# The context is passed by keyword, so the parameter may have any name.
Op: TypeAlias = Callable[[Any], Any] | Callable[[Any, ItemContext], Any] | _Subscriptable

OutputOrder: TypeAlias = Literal["completion", "input"]
_ORDERS = ("completion", "input")
_STAGES = "a stage, as made by Pipe, Aggregate, Disaggregate or PathVariants"


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
        dedicated_thread: Whether to call it from its own thread.

    Raises:
        ValueError: If neither ``for`` nor ``async for`` can iterate ``source``, or if it is a str, bytes or bytearray.
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
        iterable = getattr(kind, "__iter__", None) is not None or getattr(kind, "__aiter__", None) is not None
        if is_text(self.source) or not iterable:
            accepted = "an iterable or an async iterable, not text"
            refuse(ValueError, "source", accepted, self.source, how_to_iterate(self.source))
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


def is_text(source: object) -> bool:
    """Return whether a source is text or bytes. Whoever passes the name of a folder does not want its letters."""
    return isinstance(source, str | bytes | bytearray)


def how_to_iterate(source: object) -> str:
    """Return the remedy for a source that is refused."""
    if is_text(source) or isinstance(source, os.PathLike):
        return "Pass `[item]` for a single item, and `sorted(Path(folder).rglob('*.jpg'))` for the files of a folder."
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
        executor: The executor that runs a synchronous op instead of the pipeline's threads.
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

    Raises a TypeError if it has neither, or is text, in which nobody looks up letters.
    """
    if callable(op):
        return op
    function: object = getattr(op, "__getitem__", None)
    if not callable(function) or isinstance(op, str | bytes):
        called = op is None or isinstance(op, CoroutineType | GeneratorType | AsyncGeneratorType)
        remedy = "Pass the function itself, not what it returned." if called else ""
        refuse(TypeError, "op", "callable or have `__getitem__`, not text", op, remedy)
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
    return isinstance(value, PipeConfig | AggregateConfig | DisaggregateConfig | PathVariantsConfig)


def every_stage(stages: Sequence[StageConfig]) -> Iterator[StageConfig]:
    """Yield the stages, each fork before the stages of its paths."""
    for stage in stages:
        yield stage
        if isinstance(stage, PathVariantsConfig):
            for path in stage.paths:
                yield from every_stage(path)


def any_asks_for_context(stages: Sequence[StageConfig]) -> bool:
    """Return whether the op of any stage has a parameter for the context of its item."""
    return any(isinstance(it, PipeConfig) and context_parameter(it.op) is not None for it in every_stage(stages))


def replace_stages(
    stages: Sequence[StageConfig], replacing: Callable[[StageConfig], StageConfig]
) -> tuple[StageConfig, ...]:
    """Return the stages with each replaced that is not a fork, also on the paths of forks."""
    return tuple(
        replace(stage, paths=tuple(replace_stages(path, replacing) for path in stage.paths))
        if isinstance(stage, PathVariantsConfig)
        else replacing(stage)
        for stage in stages
    )


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
        >>> branches = [PipelineConfig(SourceConfig(words), [], SinkConfig(1)) for words in (["a"], ["b"])]
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
        RuntimeError: If a region should run in sub-interpreters.

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


def every_source(config: PipelineConfig[Any]) -> Iterator[SourceConfig[Any]]:
    """Yield the sources of a pipeline: one, or those of all branches of a merge."""
    if isinstance(config.src, MergeConfig):
        for branch in config.src.pipeline_configs:
            yield from every_source(branch)
    else:
        yield config.src


def _indented(part: object, width: int) -> str:
    return textwrap.indent(repr(part), " " * width)
