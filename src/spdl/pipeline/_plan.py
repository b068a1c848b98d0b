"""From a declaration to an engine: which kind of node runs which stage."""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ._aggregate_node import AggregateNode, CollateNode
from ._async_node import AsyncNode
from ._batched_routes import BatchMergeNode, make_batch_router
from ._dedicated import DedicatedThread
from ._defs import AggregateConfig, Collate, DisaggregateConfig, MergeConfig, PathVariantsConfig, PipeConfig
from ._engine import Engine
from ._function_node import DisaggregateNode, FunctionNode
from ._locate import callers_line
from ._merge_node import MergeNode
from ._node import EDGE_CAPACITY, Node
from ._op import is_async
from ._order import Order
from ._router_node import AsyncRouterNode, RouterNode, Routing
from ._source import SOURCE, Source
from ._stage_info import StageInfo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from ._defs import PipelineConfig, StageConfig
    from ._executor_node import ExecutorNode
    from ._policy import MaxFailures

__all__ = ["plan"]

_PIPELINE_IDS = itertools.count()


def plan(config: PipelineConfig[Any], *, num_threads: int, max_failures: MaxFailures, stage_id: int) -> Engine:
    """Make the engine that runs ``config``. Nothing is started.

    Args:
        config: The declaration.
        num_threads: How many synchronous ops may run at once.
        max_failures: How many failures the stages bear that have no limit of their own.
        stage_id: The number of the first stage.
    """
    engine = Engine(next(_PIPELINE_IDS), num_threads, config.sink.buffer_size, max_failures)
    graph = _Graph(engine, _count_sources(config), stage_id)
    end = graph.add(config)
    if isinstance(end, Node):
        end.connect(None, engine.sink.entries, engine.sink.size)
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

    def __init__(self, engine: Engine, num_sources: int, stage_id: int) -> None:
        self.engine = engine
        self.num_sources = num_sources
        self.stage_ids = itertools.count(stage_id)
        self.sources: list[Source] = []
        self.nodes: list[Node] = []

    def add(self, config: PipelineConfig[Any]) -> Node | Source:
        """Add a pipeline without its sink. Returns what its results come from."""
        return self._chain(self._begin(config), config.pipes)

    def _identify(self, stage: Node | Source, concurrency: int = 1) -> None:
        number = str(next(self.stage_ids))
        slots = concurrency if concurrency > 1 else None
        stage.info = StageInfo(self.engine.pipeline_id, number, stage.name, slots)

    def _begin(self, config: PipelineConfig[Any]) -> Node | Source:
        if isinstance(config.src, MergeConfig):
            merge = MergeNode(self.engine, "merge", len(config.src.pipeline_configs))
            self._identify(merge)
            return self._merge(merge, [self.add(branch) for branch in config.src.pipeline_configs])
        index = len(self.sources)
        name = SOURCE if self.num_sources == 1 else f"{SOURCE}[{index}]"
        source = Source(self.engine, index, name, config.src.source, continuous=config.src.continuous)
        if config.src.dedicated_thread and not source.on_loop:
            source.dedicated = DedicatedThread(self.engine, source)
        self._identify(source)
        self.sources.append(source)
        return source

    def _merge(self, merge: MergeNode, ends: list[Node | Source]) -> Node:
        for index, end in enumerate(ends):
            _join(end, merge, index)
        self.nodes.append(merge)
        return merge

    def _chain(self, end: Node | Source, stages: Sequence[StageConfig]) -> Node | Source:
        for stage in stages:
            if isinstance(stage, PathVariantsConfig):
                end = self._variants(end, stage)
            else:
                node = _node(self.engine, stage)
                self._identify(node, node.slots)
                _join(end, node)
                self.nodes.append(node)
                end = node
        return end

    def _variants(self, end: Node | Source, stage: PathVariantsConfig[Any]) -> Node:
        engine, name, on_loop = self.engine, f"{stage.name}_merge", is_async(stage.router)
        if stage.batched:
            together = BatchMergeNode(engine, name, len(stage.paths))
            merge: MergeNode = together
            router = make_batch_router(engine, stage.name, stage.router, together, on_loop=on_loop)
        else:
            merge = MergeNode(engine, name, len(stage.paths))
            router = (AsyncRouterNode if on_loop else RouterNode)(engine, stage.name, stage.router)
        self._identify(router)
        _join(end, router)
        self.nodes.append(router)
        ends = [self._path(router, path) for path in stage.paths]
        self._identify(merge)
        return self._merge(merge, ends)

    def _path(self, router: Routing, path: Sequence[StageConfig]) -> Node | Source:
        before = len(self.nodes)
        end = self._chain(router, path)
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


def _node(engine: Engine, stage: PipeConfig[Any, Any] | AggregateConfig[Any] | DisaggregateConfig[Any]) -> Node:
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
    # Whoever made a pool of processes or interpreters has imported its module, so the others need not load it.
    interpreters = sys.modules.get("concurrent.futures.interpreter")
    if isinstance(executor, ThreadPoolExecutor) and not (
        interpreters is not None and isinstance(executor, interpreters.InterpreterPoolExecutor)
    ):
        from ._thread_pool_node import ThreadPoolNode  # noqa: PLC0415

        return ThreadPoolNode
    processes = sys.modules.get("concurrent.futures.process")
    if processes is not None and isinstance(executor, processes.ProcessPoolExecutor):
        from ._process_pool_node import ProcessPoolNode  # noqa: PLC0415

        return ProcessPoolNode
    from ._any_executor_node import AnyExecutorNode  # noqa: PLC0415

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
