"""From a declaration to an engine: which kind of node runs which stage."""

from __future__ import annotations

import itertools
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from ._aggregate_node import AggregateNode, CollateNode
from ._async_node import AsyncNode
from ._check import positive
from ._defs import AggregateConfig, Collate, DisaggregateConfig, PipeConfig
from ._engine import Engine
from ._executor_node import ExecutorNode
from ._function_node import FunctionNode
from ._locate import callers_line
from ._order import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._defs import PipelineConfig, StageConfig
    from ._node import Node

__all__ = ["plan"]

_PIPELINE_IDS = itertools.count()


def plan(config: PipelineConfig, *, num_threads: int) -> Engine:
    """Make the engine that runs ``config``. Nothing is started."""
    positive("num_threads", num_threads, wrong_type=ValueError)
    engine = Engine(next(_PIPELINE_IDS), num_threads, config.sink.buffer_size)
    engine.connect(config.src.source, [_node(engine, stage) for stage in config.pipes])
    return engine


def _node(engine: Engine, stage: StageConfig) -> Node:
    match stage:
        case PipeConfig():
            return _pipe(engine, stage)
        case AggregateConfig(op=op):
            if type(op) is Collate:
                return CollateNode(engine, stage.name, op.n, drop_last=stage.drop_last)
            return AggregateNode(engine, stage.name, op, drop_last=stage.drop_last)
        case DisaggregateConfig():
            return FunctionNode(engine, stage.name, iter, 1, expand=True)


def _pipe(engine: Engine, stage: PipeConfig[Any, Any]) -> Node:
    order = Order() if stage.output_order == "input" else None
    if _is_async(stage.op):
        if stage.executor is not None:
            raise ValueError(
                f"Stage {stage.name!r}: `executor` cannot be given with an async op, which runs on the event loop "
                f"({callers_line()})."
            )
        return AsyncNode(engine, stage.name, stage.op, stage.concurrency, order=order)
    if stage.executor is not None:
        return ExecutorNode(engine, stage.name, stage.op, stage.concurrency, executor=stage.executor, order=order)
    return FunctionNode(engine, stage.name, stage.op, stage.concurrency, order=order)


def _is_async(op: Callable[..., Any]) -> bool:
    function: Any = op
    while hasattr(function, "func"):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - which function it runs, not whether it is one.
    return any(iscoroutinefunction(candidate) or isasyncgenfunction(candidate) for candidate in (function, call))
