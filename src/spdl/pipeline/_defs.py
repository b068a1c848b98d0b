"""The declaration of a pipeline: frozen records that say what it is made of. They hold no behaviour."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from ._check import positive
from ._locate import callers_line

__all__ = [
    "Aggregate",
    "AggregateConfig",
    "Aggregator",
    "Collate",
    "Disaggregate",
    "DisaggregateConfig",
    "Op",
    "OutputOrder",
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


def _place_of(op: object) -> str:
    """What a function is called and where it is written, without its contents."""
    function = op
    while hasattr(function, "func"):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"


def _name_of(op: object) -> str:
    """The short name of an op: partials are unwrapped, instances give their class."""
    function = op
    while hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


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
    """Where the items come from.

    Raises:
        ValueError: If ``source`` can be iterated neither by ``for`` nor by ``async for``.
    """

    source: Iterable[T] | AsyncIterable[T]

    def __post_init__(self) -> None:
        if not hasattr(self.source, "__iter__") and not hasattr(self.source, "__aiter__"):
            raise ValueError(
                f"`source` must be an iterable or an async iterable, got {type(self.source).__name__} "
                f"({callers_line()}). If it is a function that makes one, call it."
            )

    def __repr__(self) -> str:
        return f"source({type(self.source).__qualname__} at 0x{id(self.source):x})"


@dataclass(frozen=True)
class PipeConfig(Generic[T, U]):
    """A stage that applies an op to each item. Make it with `Pipe`, which checks the arguments."""

    name: str
    op: Callable[[T], U]
    concurrency: int = 1
    executor: Executor | None = None
    output_order: OutputOrder = "completion"

    def __repr__(self) -> str:
        parts = [f"concurrency={self.concurrency}"]
        if self.executor is not None:
            parts.append(f"executor={type(self.executor).__name__}")
        if self.output_order != "completion":
            parts.append(f"output_order={self.output_order!r}")
        parts.append(f"op={_place_of(self.op)}")
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


StageConfig: TypeAlias = PipeConfig[Any, Any] | AggregateConfig[Any, Any] | DisaggregateConfig


@dataclass(frozen=True)
class PipelineConfig:
    """A whole pipeline: a source, its stages in order, and a sink."""

    src: SourceConfig[Any]
    pipes: tuple[StageConfig, ...]
    sink: SinkConfig

    def __repr__(self) -> str:
        return "\n".join(["PipelineConfig", *(f"  {stage!r}" for stage in (self.src, *self.pipes, self.sink))])


def Pipe(  # noqa: N802 - part of the public contract: it stands where a class name would.
    op: Op,
    /,
    *,
    concurrency: int = 1,
    executor: Executor | None = None,
    name: str | None = None,
    output_order: OutputOrder = "completion",
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
    if output_order not in _ORDERS:
        raise ValueError(f"`output_order` must be one of {_ORDERS}, got {output_order!r} ({callers_line()}).")
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(
            f"`executor` must be a concurrent.futures.Executor, got {type(executor).__name__} ({callers_line()})."
        )
    return PipeConfig(
        _name_of(function) if name is None else name,
        function,
        positive("concurrency", concurrency),
        executor,
        output_order,
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


def Disaggregate() -> DisaggregateConfig:  # noqa: N802 - as Pipe.
    """Declare a stage that emits the elements of each item; see `PipelineBuilder.disaggregate`."""
    return DisaggregateConfig()
