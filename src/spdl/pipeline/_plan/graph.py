"""From a declaration to an engine: which kind of node runs which stage."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._locate import callers_line
from spdl.pipeline._declare.aggregator import Collate
from spdl.pipeline._declare.executor_kind import kind_of
from spdl.pipeline._declare.op import is_async, makes_coroutine
from spdl.pipeline._declare.policy import BEAR_ALL
from spdl.pipeline._declare.records import (
    AggregateConfig,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
)
from spdl.pipeline._declare.stage_info import StageInfo
from spdl.pipeline._engine.dedicated import DedicatedThread
from spdl.pipeline._engine.edge import Edge
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import EDGE_CAPACITY, Node
from spdl.pipeline._engine.order import Order
from spdl.pipeline._engine.source import SOURCE, Source
from spdl.pipeline._nodes.aggregate import AggregateNode, CollateNode
from spdl.pipeline._nodes.asynchronous import AsyncNode
from spdl.pipeline._nodes.batched_routes import BatchMergeNode, make_batch_router
from spdl.pipeline._nodes.function import DisaggregateNode, FunctionNode
from spdl.pipeline._nodes.merge import MergeNode
from spdl.pipeline._nodes.router import AsyncRouterNode, RouterNode, Routing

from .instrumentation import enter_later
from .pipeline_ids import next_pipeline_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from contextlib import AbstractAsyncContextManager

    from spdl.pipeline._declare.policy import MaxFailures
    from spdl.pipeline._declare.records import PipelineConfig, StageConfig
    from spdl.pipeline._hooks.task_hook import TaskHook
    from spdl.pipeline._nodes.executors.base import ExecutorNode

    from .instrumentation import StageHooks, Surroundings

    _SimpleConfig: TypeAlias = PipeConfig[Any, Any] | AggregateConfig[Any] | DisaggregateConfig[Any]

__all__ = ["plan"]


def plan(
    config: PipelineConfig[Any],
    *,
    num_threads: int,
    max_failures: MaxFailures,
    stage_id: int,
    surroundings: Surroundings,
) -> Engine:
    """Make the engine that runs ``config``. Nothing is started.

    Args:
        config: The declaration.
        num_threads: How many synchronous ops may run at once.
        max_failures: How many failures the stages bear that have no limit of their own.
        stage_id: The number of the first stage.
        surroundings: The hooks and queues.
    """
    engine = Engine(next_pipeline_id(), num_threads, config.sink.buffer_size, max_failures)
    graph = _Graph(engine, _count_sources(config), stage_id, surroundings)
    end = graph.add_sink(graph.add(config), config.sink.buffer_size)
    if isinstance(end, Node):
        end.connect(None, engine.sink.entries, engine.sink.size)
    engine.sink.edge = end.behind
    end.behind.feeder = end
    if len({source.continuous for source in graph.sources}) > 1:
        raise ValueError(
            f"Merged pipelines must have either continuous sources only or none ({callers_line()}): where some end "
            "and others do not, no epoch could end."
        )
    engine.connect(graph.sources, graph.nodes)
    return engine


def _count_sources(config: PipelineConfig[Any]) -> int:
    if isinstance(config.src, MergeConfig):
        return sum(map(_count_sources, config.src.pipeline_configs))
    return 1


class _Graph:
    """The sources and nodes made so far, each node behind all that feed it."""

    def __init__(self, engine: Engine, num_sources: int, stage_id: int, surroundings: Surroundings) -> None:
        self.engine = engine
        self.surroundings = surroundings
        self.num_sources = num_sources
        self.stage_ids = itertools.count(stage_id)
        self.sources: list[Source] = []
        self.nodes: list[Node] = []

    def add(self, config: PipelineConfig[Any]) -> Node | Source:
        """Add a pipeline without its sink. Returns what its results come from."""
        return self._chain(self._begin(config), config.pipes)

    def add_sink(self, end: Node | Source, size: int) -> Node | Source:
        """Add what carries the results to the consumer, if that is a queue of the user's."""
        before = len(self.nodes)
        info = self._info("sink")
        end = self._carried(end, info, size)
        if len(self.nodes) > before:
            # The queue is the buffer.
            self.engine.sink.size = 1
        return end

    def _info(self, name: str, concurrency: int = 1) -> StageInfo:
        number = str(next(self.stage_ids))
        return StageInfo(self.engine.pipeline_id, number, name, concurrency if concurrency > 1 else None)

    def _live(self, stage: Node, hooks: StageHooks) -> None:
        """Wrap the hooks around the stage's life, and have those report that only measure."""
        if hooks.living:
            self._wrap(stage, [enter_later(hook, "stage_hook") for hook in hooks.living])
        for hook in hooks.measuring:
            hook.measure(stage.task_record)
        for interval in hooks.intervals:
            self.engine.reporter.add_stage(stage, interval)

    def _wrap(self, stage: Node | Source, contexts: Sequence[AbstractAsyncContextManager[None]]) -> None:
        from spdl.pipeline._hooks.lifespan import StageLife  # noqa: PLC0415 - most pipelines have none.

        self.engine.lives.append(StageLife(stage, contexts))

    def _carried(self, end: Node | Source, info: StageInfo, size: int = EDGE_CAPACITY) -> Node | Source:
        """Have a queue of the user's carry what a source or stage gives out, if there is such a queue."""
        queue, interval = self.surroundings.queue(info, size)
        if interval is not None:
            self.engine.reporter.add_queue(end.behind, info, interval)
        if queue is None:
            return end
        from spdl.pipeline._queues.queue_node import QueueNode  # noqa: PLC0415 - it imports asyncio.

        node = QueueNode(self.engine, f"{info.stage_name}_queue", queue)
        node.info = info
        self._wrap(node, [enter_later(queue, "stage_hook")])
        _join(end, node)
        self.nodes.append(node)
        return node

    def _begin(self, config: PipelineConfig[Any]) -> Node | Source:
        if isinstance(config.src, MergeConfig):
            merge = _merge(self.engine, config.src)
            merge.info = self._info(merge.name)
            return self._merge(merge, [self.add(branch) for branch in config.src.pipeline_configs])
        index = len(self.sources)
        name = SOURCE if self.num_sources == 1 else f"{SOURCE}[{index}]"
        source = Source(self.engine, index, name, config.src.source, continuous=config.src.continuous)
        if config.src.dedicated_thread and not source.on_loop:
            source.dedicated = DedicatedThread(self.engine, source)
        source.info = self._info(name)
        self.sources.append(source)
        return self._carried(source, source.info)

    def _merge(self, merge: Node, ends: list[Node | Source]) -> Node | Source:
        for index, end in enumerate(ends):
            _join(end, merge, index)
        self.nodes.append(merge)
        self._live(merge, self.surroundings.hooks(merge.info))
        return self._carried(merge, merge.info)

    def _chain(self, end: Node | Source, stages: Sequence[StageConfig]) -> Node | Source:
        for stage in stages:
            if isinstance(stage, PathVariantsConfig):
                end = self._variants(end, stage)
            else:
                node = self._stage(end, stage)
                end = self._carried(node, node.info)
        return end

    def _stage(self, end: Node | Source, stage: _SimpleConfig) -> Node:
        info = self._info(stage.name, stage.concurrency if isinstance(stage, PipeConfig) else 1)
        hooks = self.surroundings.hooks(info)
        node = _hooked_node(self.engine, stage, hooks.running) if hooks.running else _node(self.engine, stage)
        node.info = info
        _join(end, node)
        self.nodes.append(node)
        self._live(node, hooks)
        return node

    def _variants(self, end: Node | Source, stage: PathVariantsConfig[Any]) -> Node | Source:
        engine, name, on_loop = self.engine, f"{stage.name}_merge", makes_coroutine(stage.router)
        if stage.batched:
            together = BatchMergeNode(engine, name, len(stage.paths))
            merge: MergeNode = together
            router = make_batch_router(engine, stage.name, stage.router, together, on_loop=on_loop)
        else:
            merge = MergeNode(engine, name, len(stage.paths))
            router = (AsyncRouterNode if on_loop else RouterNode)(engine, stage.name, stage.router)
        router.info = self._info(stage.name)
        _join(end, router)
        self.nodes.append(router)
        self._live(router, self.surroundings.hooks(router.info))
        ends = [self._path(router, path, index) for index, path in enumerate(stage.paths)]
        merge.info = self._info(name)
        return self._merge(merge, ends)

    def _path(self, router: Routing, path: Sequence[StageConfig], index: int) -> Node | Source:
        before = len(self.nodes)
        info = replace(router.info, stage_name=f"{router.name}_path{index}")
        # A router has one behind it for each path.
        router.behind = Edge()
        router.behind.capacity = EDGE_CAPACITY
        end = self._chain(self._carried(router, info), path)
        router.paths.append(self.nodes[before])
        return end


def _join(end: Node | Source, node: Node, index: int = 0) -> None:
    inlet = node.inlet(index)
    if isinstance(end, Source):
        end.first = node
        end.out = inlet
    elif not isinstance(end, Routing):
        end.connect(node, inlet, EDGE_CAPACITY)
    node.feeders.append(end)
    node.before = end.behind
    end.behind.feeder = end
    end.behind.taker = node


def _merge(engine: Engine, config: MergeConfig) -> Node:
    if config.op is None:
        return MergeNode(engine, "merge", len(config.pipeline_configs))
    from spdl.pipeline._queues.merge_op_node import MergeOpNode  # noqa: PLC0415 - it imports asyncio.

    return MergeOpNode(engine, "merge", len(config.pipeline_configs), config.op)


def _hooked_node(engine: Engine, stage: _SimpleConfig, hooks: Sequence[TaskHook]) -> Node:
    from spdl.pipeline._hooks.hooked_aggregate_node import HookedAggregateNode  # noqa: PLC0415 - it imports asyncio.
    from spdl.pipeline._hooks.hooked_node import HookedNode  # noqa: PLC0415 - as above.

    match stage:
        case PipeConfig():
            return HookedNode(
                engine,
                stage.name,
                stage.op,
                stage.concurrency,
                order=Order() if stage.output_order == "input" else None,
                policy=stage.policy,
                hooks=hooks,
                executor=stage.executor,
                processes=stage.executor is not None and kind_of(stage.executor) == "processes",
            )
        case AggregateConfig():
            return HookedAggregateNode(engine, stage.name, stage.op, drop_last=stage.drop_last, hooks=hooks)
        case DisaggregateConfig():
            return HookedNode(engine, stage.name, iter, 1, order=None, policy=BEAR_ALL, hooks=hooks, expand=True)


def _node(engine: Engine, stage: _SimpleConfig) -> Node:
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
    if is_async(stage.op):
        return AsyncNode(engine, stage.name, stage.op, stage.concurrency, order=order, policy=stage.policy)
    if stage.executor is not None:
        return _executor_node_type(stage.executor)(
            engine,
            stage.name,
            stage.op,
            stage.concurrency,
            executor=stage.executor,
            order=order,
            policy=stage.policy,
        )
    return FunctionNode(engine, stage.name, stage.op, stage.concurrency, order=order, policy=stage.policy)
