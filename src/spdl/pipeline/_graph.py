"""From a declaration to an engine: chooses a kind of node for each stage, its hooks and its queues."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from spdl._check import refuse, show
from spdl._locate import callers_line
from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.op import context_parameter, is_async, makes_coroutine
from spdl.pipeline._declare.placement import Region, outside, split
from spdl.pipeline._declare.records import (
    SOURCE,
    AggregateConfig,
    Collate,
    DisaggregateConfig,
    MaxFailures,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    StageConfig,
    StageInfo,
    any_asks_for_context,
    every_source,
)
from spdl.pipeline._engine.channel import CAPACITY, Channel, Order
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.lifetime import next_pipeline_id
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._engine.source_kinds import AsyncSource, DedicatedThread
from spdl.pipeline._engine.worker import serve
from spdl.pipeline._report.counters import STARVED
from spdl.pipeline._report.perf_stats import QueueRecord
from spdl.pipeline._stages.aggregate import AggregateNode, CollateNode
from spdl.pipeline._stages.function import AsyncNode, DisaggregateNode, FunctionNode
from spdl.pipeline._stages.routes import (
    AsyncRouterNode,
    BatchMergeNode,
    MergeNode,
    RouterNode,
    Routing,
    make_batch_router,
)
from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spdl.pipeline._declare.interfaces import AsyncQueue, BackgroundTaskFactory, TaskHook
    from spdl.pipeline._engine.event_loop_thread import EventLoopThread, Lifespan
    from spdl.pipeline._stages.executors import ExecutorNode
    from spdl.pipeline._stages.measuring import TaskStatsHook

    TaskHookFactory: TypeAlias = Callable[[StageInfo], Sequence[TaskHook]]
    QueueClass: TypeAlias = Callable[..., AsyncQueue[Any]]


def kind_of(executor: Executor) -> Literal["threads", "processes", "unknown"]:
    """Return where an executor's calls run, if that is known: in threads of this process, or in processes.

    A program that made a pool of processes or interpreters has imported its module, so nothing is imported here.
    """
    priority = sys.modules.get("spdl.pipeline._stages.pools")
    kind = type(executor) if priority is None else priority.executor_type_of(executor)
    interpreters = sys.modules.get("concurrent.futures.interpreter")
    if issubclass(kind, ThreadPoolExecutor) and not (
        interpreters is not None and issubclass(kind, interpreters.InterpreterPoolExecutor)
    ):
        return "threads"
    processes = sys.modules.get("concurrent.futures.process")
    if processes is not None and issubclass(kind, processes.ProcessPoolExecutor):
        return "processes"
    return "unknown"


class StageHooks(NamedTuple):
    """The hooks of a stage: around its tasks, around its lifespan, and those that read what the engine counts."""

    running: Sequence[TaskHook] = ()
    lifespan: Sequence[TaskHook] = ()
    measuring: Sequence[TaskStatsHook] = ()
    # For each line that should be logged at the stage's end, the seconds from one to the next in the meantime.
    intervals: Sequence[float] = ()


class EdgeQueue(NamedTuple):
    """The queue between two stages."""

    # The user's queue that carries the items.
    carrier: AsyncQueue[Any] | None = None
    # If the engine should log what it counts, the seconds from one line to the next.
    interval: float | None = None


class Instrumentation:
    """Makes the hooks and queues that a pipeline was given, or that the process has as defaults.

    The library's own hook and queue only measure, which the engine does by itself: they do not lie on the items' way.
    """

    def __init__(self, hook_factory: TaskHookFactory | None, queue_class: QueueClass | None, interval: float) -> None:
        self._interval = interval
        self._given = (hook_factory, queue_class, interval)
        self._hook_factory = hook_factory or self._default_hooks()
        # Only the process's default takes the interval, as a class given to `build` can bring its own.
        self._queue_class, self._queue_options = queue_class, {}
        if queue_class is None and defaults.CHOSEN.queue_class is not defaults.OURS:
            self._queue_class, self._queue_options = defaults.CHOSEN.queue_class, {"interval": interval}

    def _default_hooks(self) -> TaskHookFactory | None:
        chosen = defaults.CHOSEN.hook_class
        if chosen is None:
            return lambda _info: ()
        if chosen is defaults.OURS:
            return None
        return lambda info: [chosen(info, interval=self._interval)]

    def elsewhere(self) -> tuple[tuple[Any, Any, float], tuple[list[Any], list[Any]]]:
        """Return what makes the same in a worker: the arguments, and the process's defaults, if any were chosen."""
        chosen = defaults.CHOSEN.hook_class, defaults.CHOSEN.queue_class
        hooks, queues = ([] if each is defaults.OURS else [each] for each in chosen)
        return self._given, (hooks, queues)

    def counted(self) -> StageHooks:
        """Return the hooks of a stage in workers that run here: its counters are read, if nothing else measures."""
        return StageHooks(intervals=[self._interval] if self._hook_factory is None else [])

    def hooks(self, info: StageInfo) -> StageHooks:
        """Return the hooks of a stage. Raises TypeError if the factory returned something else."""
        if self._hook_factory is None:
            return StageHooks(intervals=[self._interval])
        hooks: Any = self._hook_factory(info)
        from spdl.pipeline._declare.interfaces import TaskHook  # noqa: PLC0415 - most pipelines have none.

        if not isinstance(hooks, list | tuple) or not all(isinstance(hook, TaskHook) for hook in hooks):
            refuse(TypeError, "task_hook_factory", f"a function that returns a list of TaskHook (for {info})", hooks)
        stats = _own_class("_stages.measuring", "TaskStatsHook")
        if any(stats is None or getattr(hook.task_hook, "__func__", None) is not stats.task_hook for hook in hooks):
            # Beside others that run, it measures what these cost as well, or do not, depending on which comes first.
            return StageHooks(running=hooks, lifespan=hooks)
        lifespan = [hook for hook in hooks if not _is_plain(hook, stats)]
        intervals = [hook.interval for hook in hooks if _is_plain(hook, stats)]
        return StageHooks(lifespan=lifespan, measuring=hooks, intervals=intervals)

    def queue(self, info: StageInfo, size: int) -> EdgeQueue:
        """Return the queue downstream of a source or stage. Raises TypeError if the class makes something else."""
        if self._queue_class is None:
            return EdgeQueue(interval=self._interval)
        made: Any = self._queue_class(info, buffer_size=size, **self._queue_options)
        if _is_plain(made, _own_class("_stages.measuring", "StatsQueue")):
            return EdgeQueue(interval=made.interval)
        from spdl.pipeline._declare.interfaces import AsyncQueue  # noqa: PLC0415 - it imports asyncio.

        if not isinstance(made, AsyncQueue):
            refuse(TypeError, "queue_class", "a subclass of AsyncQueue", made)
        if _is_plain(made, AsyncQueue):
            return EdgeQueue()
        return EdgeQueue(carrier=made)


class _Nothing(Instrumentation):
    """No hooks and no queues, and nothing that is logged."""

    def __init__(self) -> None:
        super().__init__(lambda _info: [], None, -1)

    def queue(self, info: StageInfo, size: int) -> EdgeQueue:  # noqa: ARG002 - as in general.
        return EdgeQueue()


NOTHING = _Nothing()


def enter_later(owner: object, method: str) -> AbstractAsyncContextManager[None]:
    """The context manager that a hook's or queue's ``stage_hook`` returns, not yet entered.

    Raises a ValueError if it is not one, for example since the decorator was forgotten.
    """
    context: Any = getattr(owner, method)()
    if hasattr(context, "__aenter__") and hasattr(context, "__aexit__"):
        manager: AbstractAsyncContextManager[None] = context
        return manager
    if hasattr(context, "close"):
        # A coroutine that never ran would complain of it.
        context.close()
    raise ValueError(
        f"`{type(owner).__qualname__}.{method}` must return an async context manager, got {show(context)} "
        f"({callers_line()}). Decorate it with `contextlib.asynccontextmanager`."
    )


def _own_class(module: str, name: str) -> Any:
    """One of the library's own classes, or None if it was not imported: then it has no objects."""
    loaded = sys.modules.get(f"spdl.pipeline.{module}")
    return None if loaded is None else getattr(loaded, name)


def _is_plain(candidate: object, own: type | None) -> bool:
    """Return whether an object is of exactly this class, with none of its methods replaced."""
    return type(candidate) is own and not any(callable(getattr(own, name, None)) for name in vars(candidate))


def channel_counts(engine: Engine, writer: Node | Source, channel: Channel, reader: Node | None) -> QueueRecord:
    """Return what was counted of a channel until now, or until the pipeline ended. The sink has no reader."""
    now = engine.stopped_at or perf_counter()
    counters = channel.counters
    given = writer.counters.emitted
    if isinstance(writer, Source):
        put_seconds = writer.blocked_seconds(now)
    else:
        put_seconds = counters.put_seconds + sum(max(0.0, now - since) for since in counters.late)
        given -= 0 if writer.order is None else writer.order.buffered
    get_seconds = counters.get_seconds
    puts, gets = counters.put_times.counts.copy(), counters.get_times.counts.copy()
    occupied = counters.occupied_seconds
    if reader is None:
        taken = given - channel.items()
        # Items whose wait was not noted have waited for nothing.
        gets[0] += max(0, taken - sum(gets))
        occupied += max(0.0, (now if channel.entries else counters.emptied_at) - (counters.filled_at or now))
    elif reader.counts_gets:
        stage = reader.counters
        taken = stage.completed + stage.failed + reader.running
        occupied += now - max(stage.got_at, counters.filled_at) if reader.queue else 0.0
        get_seconds = stage.waited(now)[STARVED]
    else:
        taken = counters.taken
        occupied += now - max(counters.got_at, counters.filled_at) if given > taken else 0.0
    if not isinstance(writer, Source):
        # As above.
        puts[0] += max(0, taken - sum(puts))
    return QueueRecord(now, taken, put_seconds, puts, get_seconds, gets, occupied)


SimpleConfig: TypeAlias = "PipeConfig[Any, Any] | AggregateConfig[Any] | DisaggregateConfig[Any]"


def make_hooked_node(engine: Engine, stage: SimpleConfig, hooks: Sequence[TaskHook]) -> Node:
    from spdl.pipeline._stages.hooked import HookedAggregateNode, HookedNode  # noqa: PLC0415 - it imports asyncio.

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
            return HookedNode(engine, stage.name, iter, 1, hooks=hooks, expand=True)


def make_node(engine: Engine, stage: SimpleConfig) -> Node:
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
    from spdl.pipeline._stages.executors import (  # noqa: PLC0415 - most pipelines use no executor.
        AnyExecutorNode,
        ProcessPoolNode,
        ThreadPoolNode,
    )

    match kind_of(executor):
        case "threads":
            return ThreadPoolNode
        case "processes":
            return ProcessPoolNode
        case _:
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
    from spdl.pipeline._stages.function import contextual, with_context  # noqa: PLC0415 - few ops ask.

    return contextual(kind), with_context(stage.op, name)


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
    """Make the engine that runs ``config``, with the number of a pipeline that it is a part of. Nothing is started."""
    lifespans: list[Lifespan] = []

    def make_event_loop(engine: Engine) -> EventLoopThread:
        # It imports asyncio, which takes half of what importing the package does.
        from spdl.pipeline._engine.event_loop_thread import EventLoopThread  # noqa: PLC0415

        return EventLoopThread(engine, lifespans, background)

    num_sources = sum(1 for _ in every_source(config))
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
            f"Merged pipelines must have either continuous sources only or none ({callers_line()}): if some end and "
            "others do not, no epoch could end."
        )
    engine.connect(graph.sources, graph.nodes, needs_event_loop=bool(background or lifespans))
    if max_bytes is not None:
        if any(node.hides_items for node in graph.nodes):
            remedy = "Your own queues and merges, and regions, hide which items they hold."
            refuse(ValueError, "max_bytes", "None with a `queue_class`, a merge op or a region", max_bytes, remedy)
        # Imported here because few pipelines have one.
        from spdl.pipeline._engine.budget import Budget  # noqa: PLC0415

        engine.bound_bytes(Budget(max_bytes, engine))
    return engine


def _asks_for_contexts(config: PipelineConfig[Any]) -> bool:
    branches = config.src.pipeline_configs if isinstance(config.src, MergeConfig) else ()
    return any(map(_asks_for_contexts, branches)) or any_asks_for_context(outside(config.pipes))


class _MeasuredChannel(NamedTuple):
    """A channel with measured waiting times: the part that fills it, and how it is reported."""

    writer: Node | Source
    info: StageInfo
    interval: float


class _Graph:
    """The sources and nodes made so far, each node after all that feed it."""

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
        self.measured: dict[Channel, _MeasuredChannel] = {}

    def add(self, config: PipelineConfig[Any]) -> Node | Source:
        """Add a pipeline without its sink. Returns what its results come from."""
        return self._chain(self._begin(config), split(config.pipes))

    def add_sink(self, end: Node | Source, capacity: int) -> None:
        """Connect what the results come from with the sink, through a user's queue if there is one."""
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
            self.measured[self.engine.sink] = _MeasuredChannel(end, info, interval)
        elif replaced is not None:
            self.measured[self.engine.sink] = replaced

    def report_queues(self) -> None:
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
        if hooks.lifespan:
            self._wrap(stage, [enter_later(hook, "stage_hook") for hook in hooks.lifespan])
        for hook in hooks.measuring:
            hook.measure(stage.task_record)
        for interval in hooks.intervals:
            self.engine.reporter.add_stage(stage.counters, str(stage.info), stage.task_record, interval)

    def _wrap(self, stage: Node | Source, contexts: Sequence[AbstractAsyncContextManager[None]]) -> None:
        from spdl.pipeline._engine.event_loop_thread import Lifespan  # noqa: PLC0415 - it imports asyncio.

        self.lifespans.append(Lifespan(stage, contexts))

    def _carried(self, end: Node | Source, info: StageInfo) -> Node | Source:
        """Make a user's queue carry the results of a source or stage, if there is such a queue."""
        queue, interval = self.instrumentation.queue(info, CAPACITY)
        if interval is not None:
            self.measured[end.output] = _MeasuredChannel(end, info, interval)
        return end if queue is None else self._add_queue(end, info, queue)

    def _add_queue(self, end: Node | Source, info: StageInfo, queue: AsyncQueue[Any]) -> Node:
        from spdl.pipeline._stages.queues import QueueNode  # noqa: PLC0415 - it imports asyncio.

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
        from spdl.pipeline._engine.source_kinds import (  # noqa: PLC0415 - few ops ask.
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
        from spdl.pipeline._elsewhere.regions import make_region  # noqa: PLC0415 - few pipelines have any.

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
    # A router decides itself where each item goes.
    end.write_to(end.output, None if isinstance(end, Routing) else node)
    node.read_from(end, end.output)


def _merge(engine: Engine, config: MergeConfig) -> Node:
    if config.op is None:
        return MergeNode(engine, "merge", len(config.pipeline_configs))
    from spdl.pipeline._stages.queues import MergeOpNode  # noqa: PLC0415 - it imports asyncio.

    return MergeOpNode(engine, "merge", config.op)
