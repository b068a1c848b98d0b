"""From a declaration to an engine: which kind of node runs which stage."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ._aggregate_node import AggregateNode, CollateNode
from ._async_node import AsyncNode
from ._batched_routes import BatchMergeNode, make_batch_router
from ._check import positive
from ._dedicated import DedicatedThread
from ._defs import AggregateConfig, Collate, DisaggregateConfig, MergeConfig, PathVariantsConfig, PipeConfig
from ._engine import Engine
from ._executor_node import ExecutorNode
from ._function_node import DisaggregateNode, FunctionNode
from ._locate import callers_line
from ._merge_node import MergeNode
from ._node import EDGE_CAPACITY, Node
from ._op import is_async
from ._order import Order
from ._policy import check_max_failures
from ._router_node import AsyncRouterNode, RouterNode, Routing
from ._source import SOURCE, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._defs import PipelineConfig, StageConfig
    from ._policy import MaxFailures

__all__ = ["plan"]

_PIPELINE_IDS = itertools.count()


def plan(config: PipelineConfig, *, num_threads: int, max_failures: MaxFailures) -> Engine:
    """Make the engine that runs ``config``. Nothing is started."""
    positive("num_threads", num_threads, wrong_type=ValueError)
    engine = Engine(next(_PIPELINE_IDS), num_threads, config.sink.buffer_size, check_max_failures(max_failures))
    graph = _Graph(engine, _count_sources(config))
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


def _count_sources(config: PipelineConfig) -> int:
    if isinstance(config.src, MergeConfig):
        return sum(map(_count_sources, config.src.pipeline_configs))
    return 1


class _Graph:
    """The sources and nodes made so far, each node behind all that feed it."""

    def __init__(self, engine: Engine, num_sources: int) -> None:
        self.engine = engine
        self.num_sources = num_sources
        self.sources: list[Source] = []
        self.nodes: list[Node] = []

    def add(self, config: PipelineConfig) -> Node | Source:
        """Add a pipeline without its sink. Returns what its results come from."""
        return self._chain(self._begin(config), config.pipes)

    def _begin(self, config: PipelineConfig) -> Node | Source:
        if isinstance(config.src, MergeConfig):
            merge = MergeNode(self.engine, "merge", len(config.src.pipeline_configs))
            return self._merge(merge, [self.add(branch) for branch in config.src.pipeline_configs])
        index = len(self.sources)
        name = SOURCE if self.num_sources == 1 else f"{SOURCE}[{index}]"
        source = Source(self.engine, index, name, config.src.source, continuous=config.src.continuous)
        if config.src.dedicated_thread and not source.on_loop:
            source.dedicated = DedicatedThread(self.engine, source)
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
                _join(end, node)
                self.nodes.append(node)
                end = node
        return end

    def _variants(self, end: Node | Source, stage: PathVariantsConfig) -> Node:
        engine, name, on_loop = self.engine, f"{stage.name}_merge", is_async(stage.router)
        if stage.batched:
            together = BatchMergeNode(engine, name, len(stage.paths))
            merge: MergeNode = together
            router = make_batch_router(engine, stage.name, stage.router, together, on_loop=on_loop)
        else:
            merge = MergeNode(engine, name, len(stage.paths))
            router = (AsyncRouterNode if on_loop else RouterNode)(engine, stage.name, stage.router)
        _join(end, router)
        self.nodes.append(router)
        return self._merge(merge, [self._path(router, path) for path in stage.paths])

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


def _node(engine: Engine, stage: PipeConfig[Any, Any] | AggregateConfig[Any, Any] | DisaggregateConfig) -> Node:
    match stage:
        case PipeConfig():
            return _pipe(engine, stage)
        case AggregateConfig(op=op):
            if type(op) is Collate:
                return CollateNode(engine, stage.name, op.n, drop_last=stage.drop_last)
            return AggregateNode(engine, stage.name, op, drop_last=stage.drop_last)
        case DisaggregateConfig():
            return DisaggregateNode(engine, stage.name)


def _pipe(engine: Engine, stage: PipeConfig[Any, Any]) -> Node:
    order = Order() if stage.output_order == "input" else None
    if is_async(stage.op):
        if stage.executor is not None:
            raise ValueError(
                f"Stage {stage.name!r}: `executor` cannot be given with an async op, which runs on the event loop "
                f"({callers_line()})."
            )
        return AsyncNode(engine, stage.name, stage.op, stage.concurrency, order=order, policy=stage.policy)
    if stage.executor is not None:
        return ExecutorNode(
            engine,
            stage.name,
            stage.op,
            stage.concurrency,
            executor=stage.executor,
            order=order,
            policy=stage.policy,
        )
    return FunctionNode(engine, stage.name, stage.op, stage.concurrency, order=order, policy=stage.policy)
