"""Which kind of node runs which stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.pipeline._declare.aggregator import Collate
from spdl.pipeline._declare.context_parameter import context_parameter
from spdl.pipeline._declare.executor_kind import kind_of
from spdl.pipeline._declare.op import is_async
from spdl.pipeline._declare.policy import DEFAULT_POLICY
from spdl.pipeline._declare.records import AggregateConfig, DisaggregateConfig, PipeConfig
from spdl.pipeline._engine.order import Order
from spdl.pipeline._nodes.aggregate import CollateNode
from spdl.pipeline._nodes.aggregator_node import AggregateNode
from spdl.pipeline._nodes.asynchronous import AsyncNode
from spdl.pipeline._nodes.function import DisaggregateNode, FunctionNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._hooks.task_hook import TaskHook
    from spdl.pipeline._nodes.executors.base import ExecutorNode

__all__ = ["SimpleConfig", "make_hooked_node", "make_node"]

SimpleConfig: TypeAlias = "PipeConfig[Any, Any] | AggregateConfig[Any] | DisaggregateConfig[Any]"


def make_hooked_node(engine: Engine, stage: SimpleConfig, hooks: Sequence[TaskHook]) -> Node:
    """Make the node of a stage whose tasks run inside hooks."""
    from spdl.pipeline._hooks.hooked_aggregate_node import HookedAggregateNode  # noqa: PLC0415 - it imports asyncio.
    from spdl.pipeline._hooks.hooked_node import HookedNode  # noqa: PLC0415 - as above.

    match stage:
        case PipeConfig():
            kind, op = _contextual(HookedNode, stage)
            node: Node = kind(
                engine,
                stage.name,
                op,
                stage.concurrency,
                order=Order() if stage.output_order == "input" else None,
                policy=stage.policy,
                hooks=hooks,
                executor=stage.executor,
                processes=stage.executor is not None and kind_of(stage.executor) == "processes",
            )
            return node
        case AggregateConfig():
            return HookedAggregateNode(engine, stage.name, stage.op, drop_last=stage.drop_last, hooks=hooks)
        case DisaggregateConfig():
            return HookedNode(engine, stage.name, iter, 1, order=None, policy=DEFAULT_POLICY, hooks=hooks, expand=True)


def make_node(engine: Engine, stage: SimpleConfig) -> Node:
    """Make the node of a stage without hooks."""
    match stage:
        case PipeConfig():
            return _pipe(engine, stage)
        case AggregateConfig(op=op):
            if type(op) is Collate:
                return CollateNode(engine, stage.name, op.n, drop_last=stage.drop_last)
            return AggregateNode(engine, stage.name, op, drop_last=stage.drop_last)
        case DisaggregateConfig():
            return DisaggregateNode(engine, stage.name)


def _executor_node_type(executor: Executor) -> type[ExecutorNode]:
    match kind_of(executor):
        case "threads":
            from spdl.pipeline._nodes.executors.thread_pool import ThreadPoolNode  # noqa: PLC0415

            return ThreadPoolNode
        case "processes":
            from spdl.pipeline._nodes.executors.process_pool import ProcessPoolNode  # noqa: PLC0415

            return ProcessPoolNode
        case _:
            from spdl.pipeline._nodes.executors.any_executor import AnyExecutorNode  # noqa: PLC0415

            return AnyExecutorNode


def _pipe(engine: Engine, stage: PipeConfig[Any, Any]) -> Node:
    order = Order() if stage.output_order == "input" else None
    kind: Any = FunctionNode
    options: dict[str, Any] = {}
    if is_async(stage.op):
        kind = AsyncNode
    elif stage.executor is not None:
        kind = _executor_node_type(stage.executor)
        options = {"executor": stage.executor}
    kind, op = _contextual(kind, stage)
    node: Node = kind(engine, stage.name, op, stage.concurrency, order=order, policy=stage.policy, **options)
    return node


def _contextual(kind: Any, stage: PipeConfig[Any, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type of a stage's node and its op, both such that the op gets its items' contexts if it asks."""
    name = context_parameter(stage.op)
    if name is None:
        return kind, stage.op
    from spdl.pipeline._nodes.contextual import contextual, with_context  # noqa: PLC0415 - few ops ask.

    return contextual(kind), with_context(stage.op, name)
