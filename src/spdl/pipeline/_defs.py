"""The declaration of a pipeline: frozen records that say what it is made of. They hold no behaviour."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from ._check import positive
from ._locate import callers_line
from ._op import name_of, place_of
from ._policy import BEAR_ALL, FailurePolicy, MaxFailures, OnFailure, check_policy

if TYPE_CHECKING:
    from ._overtime import OnTimeout

__all__ = [
    "Aggregate",
    "AggregateConfig",
    "Aggregator",
    "Collate",
    "Disaggregate",
    "DisaggregateConfig",
    "Merge",
    "MergeConfig",
    "Op",
    "OutputOrder",
    "PathVariants",
    "PathVariantsConfig",
    "Pipe",
    "PipeConfig",
    "PipelineConfig",
    "SinkConfig",
    "SourceConfig",
    "StageConfig",
]

T = TypeVar("T")
U = TypeVar("U")


class _Subscriptable(Protocol):
    """A list, a dict, a data set: anything with ``__getitem__``."""

    def __getitem__(self, key: Any, /) -> Any: ...


Op: TypeAlias = Callable[[Any], Any] | _Subscriptable

OutputOrder: TypeAlias = Literal["completion", "input"]
_ORDERS = ("completion", "input")


class Aggregator(ABC, Generic[T, U]):
    """A stage that gathers items and decides when to pass something on.

    The engine calls it from one thread at a time, in the order in which the items arrive. An exception that it
    raises fails the pipeline: what it had gathered would be lost otherwise.
    """

    @abstractmethod
    def accumulate(self, item: T) -> U | None:
        """Take one item. Return what to pass on, or None to wait for more."""

    @abstractmethod
    def flush(self) -> U | None:
        """Return what is left at the end of the input, or None, and start afresh."""


class Collate(Aggregator[T, list[T]]):
    """Gather items into lists of ``n``.

    Args:
        n: How many items make a batch, at least 1.

    Example:
        >>> batcher = Collate(2)
        >>> batcher.accumulate("a"), batcher.accumulate("b"), batcher.flush()
        (None, ['a', 'b'], None)
    """

    def __init__(self, n: int) -> None:
        self.n = positive("n", n)
        self._batch: list[T] = []

    def accumulate(self, item: T) -> list[T] | None:
        """Add the item; return the batch once it is full."""
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


@dataclass(frozen=True)
class SourceConfig(Generic[T]):
    """Where the items come from; see `PipelineBuilder.add_source`.

    Raises:
        ValueError: If ``source`` can be iterated neither by ``for`` nor by ``async for``.
    """

    source: Iterable[T] | AsyncIterable[T]
    continuous: bool = False
    dedicated_thread: bool = False

    def __post_init__(self) -> None:
        if not hasattr(self.source, "__iter__") and not hasattr(self.source, "__aiter__"):
            raise ValueError(
                f"`source` must be an iterable or an async iterable, got {type(self.source).__name__} "
                f"({callers_line()}). If it is a function that makes one, call it."
            )

    def __repr__(self) -> str:
        flags = [name for name in ("continuous", "dedicated_thread") if getattr(self, name)]
        options = "".join(f", {name}=True" for name in flags)
        return f"source({type(self.source).__qualname__} at 0x{id(self.source):x}{options})"


@dataclass(frozen=True)
class PipeConfig(Generic[T, U]):
    """A stage that applies an op to each item. Make it with `Pipe`, which checks the arguments."""

    name: str
    op: Callable[[T], U]
    concurrency: int = 1
    executor: Executor | None = None
    output_order: OutputOrder = "completion"
    policy: FailurePolicy = BEAR_ALL

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


@dataclass(frozen=True)
class AggregateConfig(Generic[T, U]):
    """A stage that gathers items. Make it with `Aggregate`."""

    name: str
    op: Aggregator[T, U]
    drop_last: bool = False

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class DisaggregateConfig:
    """A stage that emits the elements of each item one by one. Make it with `Disaggregate`."""

    name: str = "disaggregate"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SinkConfig:
    """The buffer that the consumer reads from.

    Raises:
        ValueError: If ``buffer_size`` is not an int of at least 1.
    """

    buffer_size: int

    def __post_init__(self) -> None:
        positive("buffer_size", self.buffer_size, wrong_type=ValueError)

    def __repr__(self) -> str:
        return f"sink(buffer_size={self.buffer_size})"


@dataclass(frozen=True)
class PathVariantsConfig:
    """A fork: a router says which path an item takes, and the paths' results are merged. Made by `PathVariants`.

    Raises:
        TypeError: If the router is not callable, or a path holds something that is no stage.
        ValueError: If there is no path, or an empty one.
    """

    name: str
    router: Callable[[Any], Any]
    paths: tuple[tuple[StageConfig, ...], ...]
    batched: bool = False

    def __post_init__(self) -> None:
        if not callable(self.router):
            raise ValueError(  # noqa: TRY004 - the public contract.
                f"`router` must be callable, got {self.router!r} ({callers_line()})."
            )
        if not self.paths:
            raise ValueError(f"`paths` must hold at least one path, got none ({callers_line()}).")
        for index, path in enumerate(self.paths):
            if not path:
                raise ValueError(f"`paths[{index}]` must hold at least one stage, got none ({callers_line()}).")
            for stage in path:
                if not isinstance(stage, PipeConfig | AggregateConfig | DisaggregateConfig | PathVariantsConfig):
                    raise ValueError(  # noqa: TRY004 - the public contract.
                        f"`paths[{index}]` must hold stages (Pipe, Aggregate, Disaggregate, PathVariants), got "
                        f"{type(stage).__name__} ({callers_line()})."
                    )

    def __repr__(self) -> str:
        batched = ", batched=True" if self.batched else ""
        lines = [f"{self.name}(router={place_of(self.router)}{batched})"]
        for index, path in enumerate(self.paths):
            lines.append(f"  path {index}")
            lines += [_indented(stage, 4) for stage in path]
        return "\n".join(lines)


StageConfig: TypeAlias = PipeConfig[Any, Any] | AggregateConfig[Any, Any] | DisaggregateConfig | PathVariantsConfig


@dataclass(frozen=True)
class MergeConfig:
    """Several pipelines in place of a source. Made by `Merge`."""

    pipeline_configs: tuple[PipelineConfig, ...]

    def __post_init__(self) -> None:
        if not self.pipeline_configs:
            raise ValueError(f"`pipeline_configs` must hold at least one pipeline, got none ({callers_line()}).")
        for index, config in enumerate(self.pipeline_configs):
            if not isinstance(config, PipelineConfig):
                raise TypeError(
                    f"`pipeline_configs[{index}]` must be a PipelineConfig, got {type(config).__name__} "
                    f"({callers_line()}). A builder's `get_config()` makes one."
                )

    def __repr__(self) -> str:
        return "\n".join(["merge", *(_indented(config, 2) for config in self.pipeline_configs)])


@dataclass(frozen=True)
class PipelineConfig:
    """A whole pipeline: a source or merged pipelines, the stages in order, and a sink."""

    src: SourceConfig[Any] | MergeConfig
    pipes: Sequence[StageConfig]
    sink: SinkConfig

    def __repr__(self) -> str:
        return "\n".join(["PipelineConfig", *(_indented(part, 2) for part in (self.src, *self.pipes, self.sink))])


def _indented(part: object, width: int) -> str:
    return textwrap.indent(repr(part), " " * width)


def Pipe(  # noqa: N802 - part of the public contract: it stands where a class name would.
    op: Op,
    /,
    *,
    concurrency: int = 1,
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
    """Declare a stage that applies ``op`` to each item; see `PipelineBuilder.pipe`."""
    if callable(op):
        function = op
    elif hasattr(op, "__getitem__"):
        function = op.__getitem__
    else:
        raise TypeError(
            f"`op` must be callable or have `__getitem__`, got {type(op).__name__} {op!r:.80} ({callers_line()})."
        )
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`name` must be a str, got {name!r} ({callers_line()}).")
    if output_order not in _ORDERS:
        raise ValueError(f"`output_order` must be one of {_ORDERS}, got {output_order!r} ({callers_line()}).")
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(
            f"`executor` must be a concurrent.futures.Executor, got {type(executor).__name__} ({callers_line()})."
        )
    return PipeConfig(
        name_of(function) if name is None else name,
        function,
        positive("concurrency", concurrency),
        executor,
        output_order,
        check_policy(FailurePolicy(max_failures, retries, retry_delay, on_failure, timeout, on_timeout)),
    )


def Aggregate(  # noqa: N802 - as Pipe.
    input: int | Aggregator[Any, Any],  # noqa: A002 - the public contract's name.
    /,
    *,
    drop_last: bool = False,
) -> AggregateConfig[Any, Any]:
    """Declare a stage that gathers items; see `PipelineBuilder.aggregate`."""
    if isinstance(input, Aggregator):
        op: Aggregator[Any, Any] = input
    elif isinstance(input, int):
        op = Collate(input)
    else:
        raise TypeError(
            f"The argument of `aggregate` must be an int or an Aggregator, got {type(input).__name__} "
            f"({callers_line()})."
        )
    name = repr(op) if type(op) is Collate else type(op).__name__
    return AggregateConfig(f"aggregate(op={name}, drop_last={drop_last})", op, drop_last)


def PathVariants(  # noqa: N802 - as Pipe.
    router: Callable[[Any], Any],
    paths: Sequence[Sequence[StageConfig]],
    name: str | None = None,
    batched: bool = False,  # noqa: FBT001, FBT002 - the public contract.
) -> PathVariantsConfig:
    """Declare a fork; see `PipelineBuilder.path_variants`."""
    return PathVariantsConfig(name or "path_variants", router, tuple(map(tuple, paths)), batched)


def Merge(pipeline_configs: Sequence[PipelineConfig]) -> MergeConfig:  # noqa: N802 - as Pipe.
    """Declare that several pipelines take the place of a source.

    Their items are passed on as they come, one from each in turn. Their sinks are ignored.
    """
    return MergeConfig(tuple(pipeline_configs))


def Disaggregate() -> DisaggregateConfig:  # noqa: N802 - as Pipe.
    """Declare a stage that emits the elements of each item; see `PipelineBuilder.disaggregate`."""
    return DisaggregateConfig()
