"""From a declaration to an engine: which kind of node runs which stage."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._check import refuse
from spdl._locate import callers_line
from spdl.pipeline._declare.context_parameter import context_parameter
from spdl.pipeline._declare.op import makes_coroutine
from spdl.pipeline._declare.records import MergeConfig, PathVariantsConfig, PipeConfig
from spdl.pipeline._declare.regions import Region, outside, split
from spdl.pipeline._declare.stage_info import SOURCE, StageInfo
from spdl.pipeline._engine.async_source import AsyncSource
from spdl.pipeline._engine.channel import CAPACITY, Channel
from spdl.pipeline._engine.channel_counts import channel_counts
from spdl.pipeline._engine.dedicated import DedicatedThread
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._engine.worker import serve
from spdl.pipeline._nodes.batched_routes import BatchMergeNode, make_batch_router
from spdl.pipeline._nodes.merge import MergeNode
from spdl.pipeline._nodes.router import AsyncRouterNode, RouterNode, Routing

from .instrumentation import NOTHING, enter_later
from .pipeline_ids import next_pipeline_id
from .stage_nodes import make_hooked_node, make_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from spdl.pipeline._background.task import BackgroundTaskFactory
    from spdl.pipeline._declare.policy import MaxFailures
    from spdl.pipeline._declare.records import PipelineConfig, StageConfig
    from spdl.pipeline._engine.event_loop_thread import EventLoopThread
    from spdl.pipeline._engine.lifespan import Lifespan
    from spdl.pipeline._queues.async_queue import AsyncQueue

    from .instrumentation import Instrumentation, StageHooks
    from .stage_nodes import SimpleConfig

__all__ = ["plan"]


def plan(
    config: PipelineConfig[Any],
    *,
    num_threads: int,
    max_failures: MaxFailures,
    max_bytes: int | None = None,
    stage_id: int,
    instrumentation: Instrumentation,
    background: Sequence[BackgroundTaskFactory] = (),
    pipeline_id: int | None = None,
) -> Engine:
    """Make the engine that runs ``config``. Nothing is started.

    Args:
        config: The declaration.
        num_threads: How many synchronous ops may run at once.
        max_failures: How many failures the stages bear that have no limit of their own.
        max_bytes: How many bytes the items in flight may keep, if that is bounded.
        stage_id: The number of the first stage.
        instrumentation: The hooks and queues.
        background: What runs on the event loop beside the stages.
        pipeline_id: The number of the pipeline, if it is a part of one.
    """
    lifespans: list[Lifespan] = []

    def make_event_loop(engine: Engine) -> EventLoopThread:
        # It imports asyncio, which takes half of what importing the package does.
        from spdl.pipeline._engine.event_loop_thread import EventLoopThread  # noqa: PLC0415

        return EventLoopThread(engine, lifespans, background)

    num_sources = _count_sources(config)
    engine = Engine(
        next_pipeline_id() if pipeline_id is None else pipeline_id,
        num_threads,
        config.sink.buffer_size,
        max_failures,
        num_sources,
        serve=serve,
        make_event_loop=make_event_loop,
    )
    graph = _Graph(engine, num_sources, stage_id, instrumentation, lifespans, indexed=_asks_for_contexts(config))
    graph.add_sink(graph.add(config), config.sink.buffer_size)
    graph.report_queues()
    if len({source.continuous for source in graph.sources}) > 1:
        raise ValueError(
            f"Merged pipelines must have either continuous sources only or none ({callers_line()}): where some end "
            "and others do not, no epoch could end."
        )
    engine.connect(graph.sources, graph.nodes, needs_event_loop=bool(background or lifespans))
    if max_bytes is not None:
        if any(node.hides_items for node in graph.nodes):
            remedy = "Queues and merges of your own, and regions, hide which items they hold."
            refuse(ValueError, "max_bytes", "None with a `queue_class`, a merge op or a region", max_bytes, remedy)
        # Imported here because few pipelines have one.
        from spdl.pipeline._engine.budget import Budget  # noqa: PLC0415
        from spdl.pipeline._engine.engine_surroundings import EngineSurroundings  # noqa: PLC0415

        engine.bound_bytes(Budget(max_bytes, EngineSurroundings(engine)))
    return engine


def _count_sources(config: PipelineConfig[Any]) -> int:
    if isinstance(config.src, MergeConfig):
        return sum(map(_count_sources, config.src.pipeline_configs))
    return 1


def _asks_for_contexts(config: PipelineConfig[Any]) -> bool:
    branches = config.src.pipeline_configs if isinstance(config.src, MergeConfig) else ()
    return any(map(_asks_for_contexts, branches)) or any(map(_stage_asks, outside(config.pipes)))


def _stage_asks(stage: StageConfig) -> bool:
    if isinstance(stage, PathVariantsConfig):
        return any(_stage_asks(each) for path in stage.paths for each in path)
    return isinstance(stage, PipeConfig) and context_parameter(stage.op) is not None


class _Measured(NamedTuple):
    """A channel of which the engine measures how long items wait: what fills it, and how it is reported."""

    writer: Node | Source
    info: StageInfo
    interval: float


class _Graph:
    """The sources and nodes made so far, each node behind all that feed it."""

    def __init__(
        self,
        engine: Engine,
        num_sources: int,
        stage_id: int,
        instrumentation: Instrumentation,
        lifespans: list[Lifespan],
        *,
        indexed: bool,
    ) -> None:
        self.engine = engine
        # An op asks for its items' contexts, which name the index of each.
        self.indexed = indexed
        self.lifespans = lifespans
        self.instrumentation = instrumentation
        self.num_sources = num_sources
        self.stage_ids: Iterator[int] = itertools.count(stage_id)
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        self.measured: dict[Channel, _Measured] = {}

    def add(self, config: PipelineConfig[Any]) -> Node | Source:
        """Add a pipeline without its sink. Returns what its results come from."""
        return self._chain(self._begin(config), split(config.pipes))

    def add_sink(self, end: Node | Source, capacity: int) -> None:
        """Connect what the results come from with the sink, through a queue of the user's if there is one."""
        info = self._info("sink")
        queue, interval = self.instrumentation.queue(info, capacity)
        if queue is not None:
            end = self._add_queue(end, info, queue)
            # The queue is the buffer.
            self.engine.sink.set_capacity(1)
        # The sink takes the place of the last stage's own channel.
        replaced = self.measured.pop(end.output, None)
        end.write_to(self.engine.sink, None)
        if interval is not None:
            self.measured[self.engine.sink] = _Measured(end, info, interval)
        elif replaced is not None:
            self.measured[self.engine.sink] = replaced

    def report_queues(self) -> None:
        """Have the queues reported of which the engine measures how long items wait. Called once all are connected."""
        readers: dict[Channel, Node | None] = {channel: node for node in self.nodes for channel in node.inputs()}
        readers[self.engine.sink] = None
        for channel, (writer, info, interval) in self.measured.items():
            reader = readers[channel]
            read = partial(channel_counts, self.engine, writer, channel, reader)
            key = None if reader is None else reader.counters
            self.engine.reporter.add_queue(key, str(info), read, interval)

    def _info(self, name: str, concurrency: int = 1) -> StageInfo:
        number = str(next(self.stage_ids))
        return StageInfo(self.engine.pipeline_id, number, name, concurrency if concurrency > 1 else None)

    def _instrument(self, stage: Node, hooks: StageHooks) -> None:
        """Wrap the hooks around the stage's lifespan, and have those report that only measure."""
        if hooks.lifespan:
            self._wrap(stage, [enter_later(hook, "stage_hook") for hook in hooks.lifespan])
        for hook in hooks.measuring:
            hook.measure(stage.task_record)
        for interval in hooks.intervals:
            self.engine.reporter.add_stage(stage.counters, str(stage.info), stage.task_record, interval)

    def _wrap(self, stage: Node | Source, contexts: Sequence[AbstractAsyncContextManager[None]]) -> None:
        from spdl.pipeline._engine.lifespan import Lifespan  # noqa: PLC0415 - it imports asyncio.

        self.lifespans.append(Lifespan(stage, contexts))

    def _carried(self, end: Node | Source, info: StageInfo) -> Node | Source:
        """Have a queue of the user's carry the results of a source or stage, if there is such a queue."""
        queue, interval = self.instrumentation.queue(info, CAPACITY)
        if interval is not None:
            self.measured[end.output] = _Measured(end, info, interval)
        return end if queue is None else self._add_queue(end, info, queue)

    def _add_queue(self, end: Node | Source, info: StageInfo, queue: AsyncQueue[Any]) -> Node:
        from spdl.pipeline._queues.queue_node import QueueNode  # noqa: PLC0415 - it imports asyncio.

        node = QueueNode(self.engine, f"{info.stage_name}_queue", queue)
        node.identify(info)
        self._wrap(node, [enter_later(queue, "stage_hook")])
        _join(end, node)
        self.nodes.append(node)
        return node

    def _begin(self, config: PipelineConfig[Any]) -> Node | Source:
        if isinstance(config.src, MergeConfig):
            merge = _merge(self.engine, config.src)
            merge.identify(self._info(merge.name))
            return self._merge(merge, [self.add(branch) for branch in config.src.pipeline_configs])
        index = len(self.sources)
        name = SOURCE if self.num_sources == 1 else f"{SOURCE}[{index}]"
        iterable = config.src.source
        source = self._type_of_source(iterable)(self.engine, index, name, iterable, continuous=config.src.continuous)
        if config.src.dedicated_thread and not source.on_loop:
            source.dedicate(DedicatedThread(self.engine, source))
        source.identify(self._info(name))
        self.sources.append(source)
        return self._carried(source, source.info)

    def _type_of_source(self, iterable: Any) -> type[Source]:
        on_loop = hasattr(iterable, "__aiter__")
        if not self.indexed:
            return AsyncSource if on_loop else Source
        from spdl.pipeline._engine.indexed_source import (  # noqa: PLC0415 - few ops ask.
            IndexedAsyncSource,
            IndexedSource,
            Placed,
            PlacedSource,
        )

        if isinstance(iterable, Placed):
            return PlacedSource
        return IndexedAsyncSource if on_loop else IndexedSource

    def _merge(self, merge: Node, ends: list[Node | Source]) -> Node | Source:
        for end in ends:
            _join(end, merge)
        self.nodes.append(merge)
        self._instrument(merge, self.instrumentation.hooks(merge.info))
        return self._carried(merge, merge.info)

    def _chain(self, end: Node | Source, stages: Iterable[StageConfig | Region]) -> Node | Source:
        for stage in stages:
            if isinstance(stage, Region):
                end = self._region(end, stage)
            elif isinstance(stage, PathVariantsConfig):
                end = self._variants(end, stage)
            else:
                node = self._stage(end, stage)
                end = self._carried(node, node.info)
        return end

    def _region(self, end: Node | Source, region: Region) -> Node | Source:
        from .regions import make_region  # noqa: PLC0415 - few pipelines have any.

        first_id = next(self.stage_ids)
        self.stage_ids = itertools.chain([first_id], self.stage_ids)
        before = Node(self.engine, "before the region", None, 1)
        outer, self.nodes = self.nodes, []
        instrumentation, self.instrumentation = self.instrumentation, NOTHING
        try:
            last = self._chain(before, region.stages)
        finally:
            patterns, self.nodes = self.nodes, outer
            self.instrumentation = instrumentation
        made = make_region(self.engine, region, patterns, instrumentation.elsewhere(), first_id)
        mirrors = dict(zip(patterns, made.mirrors, strict=True))
        for pattern, mirror in mirrors.items():
            feeders = [end if feeder is before else mirrors[feeder] for feeder in pattern.feeders]  # type: ignore[index]
            mirror.connect(feeders, made)
            self.nodes.append(mirror)
            self._instrument(mirror, instrumentation.counted())
        made.identify(replace(made.mirrors[-1].info, stage_name=made.name))
        _join(end, made)
        made.enclose([mirrors[last]])  # type: ignore[index]
        self.nodes.append(made)
        return self._carried(made, made.mirrors[-1].info)

    def _stage(self, end: Node | Source, stage: SimpleConfig) -> Node:
        info = self._info(stage.name, stage.concurrency if isinstance(stage, PipeConfig) else 1)
        hooks = self.instrumentation.hooks(info)
        node = make_hooked_node(self.engine, stage, hooks.running) if hooks.running else make_node(self.engine, stage)
        node.identify(info)
        _join(end, node)
        self.nodes.append(node)
        self._instrument(node, hooks)
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
        router.identify(self._info(stage.name))
        _join(end, router)
        self.nodes.append(router)
        self._instrument(router, self.instrumentation.hooks(router.info))
        ends = [self._path(router, path, index) for index, path in enumerate(stage.paths)]
        merge.identify(self._info(name))
        return self._merge(merge, ends)

    def _path(self, router: Routing, path: Sequence[StageConfig], index: int) -> Node | Source:
        first = len(self.nodes)
        info = replace(router.info, stage_name=f"{router.name}_path{index}")
        # A router fills one channel for each path.
        router.write_to(Channel(), None)
        end = self._chain(self._carried(router, info), path)
        router.paths.append(self.nodes[first])
        return end


def _join(end: Node | Source, node: Node) -> None:
    # Where an item goes that leaves a router, the router decides.
    end.write_to(end.output, None if isinstance(end, Routing) else node)
    node.read_from(end, end.output)


def _merge(engine: Engine, config: MergeConfig) -> Node:
    if config.op is None:
        return MergeNode(engine, "merge", len(config.pipeline_configs))
    from spdl.pipeline._queues.merge_op_node import MergeOpNode  # noqa: PLC0415 - it imports asyncio.

    return MergeOpNode(engine, "merge", config.op)
