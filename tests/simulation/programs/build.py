"""Makes the pipeline that a program describes."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from fractions import Fraction
from typing import Any, TypeAlias

from spdl.pipeline import FailedItem, Pipeline, StageInfo, TaskHook, build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from tests.simulation.programs.inside import PriorityPool

from . import program as described
from .behaviour import ends_batch, path_of
from .hooks import Counting
from .lab import Exclusive, Lab, ProvokedError
from .merges import make_merge
from .ops import make_op
from .queues import Passing
from .sources import make_source

# How long an aggregator takes that hooks do not wait for.
_SLOW = 0.0015
# How long the other work takes that a pool does.
_OTHER_WORK = 0.05
# How long a slow ``on_failure`` takes.
_SLOW_CALLBACK = 0.002


class Gathering(Aggregator[Any, Any]):
    """An aggregator that ends a batch at some items."""

    def __init__(self, lab: Lab, stage: described.Aggregate) -> None:
        self.stage = stage
        self.batch: list[Any] = []
        self.items = 0
        self.serve(lab)

    def serve(self, lab: Lab) -> None:
        """Work in the pipeline of another run from now on."""
        self.lab = lab
        self.turn = Exclusive(lab, f"aggregator {self.stage.name}")

    def accumulate(self, item: Any) -> Any:
        with self.turn.call():
            self.items += 1
            if self.items - 1 == self.stage.raise_at:
                self.lab.rest.fail()
                raise ProvokedError(self.stage.name)
            if self.lab.program.hooks == "timeout":
                self.lab.host.sleep(_SLOW * (self.items % 3))
            self.batch.append(item)
            self.lab.rest.gathered[self.stage.name] += 1
            return self._take() if ends_batch(self.stage, len(self.batch), item.key) else None

    def flush(self) -> Any:
        with self.turn.call():
            return self._take() if self.batch else None

    def held_back(self) -> list[Any]:
        return self.batch

    def _take(self) -> list[Any]:
        batch, self.batch = self.batch, []
        return batch


# The aggregators of a program, by the names of their stages.
Aggregators: TypeAlias = dict[str, Gathering]


def _make_router(lab: Lab, fork: described.Fork) -> Callable[[Any], Any]:
    turn = Exclusive(lab, f"router {fork.name}")

    def choose(value: Any) -> Any:
        with turn.call() as number:
            if number == fork.raise_at:
                lab.rest.fail()
                raise ProvokedError(fork.name)
            if fork.batched:
                return [path_of(fork, (element.key,)) for element in value]
            keys = tuple(element.key for element in value) if isinstance(value, list) else (value.key,)
            return path_of(fork, keys)

    async def choose_later(value: Any) -> Any:
        return choose(value)

    return choose_later if fork.asynchronous else choose


class Built:
    """A pipeline, and what it was made with.

    Attributes:
        pipeline: The pipeline.
        inner: The pipelines that are its sources.
        pools: The pools of its stages, by the stages' names.
        ranked: The pool that several stages share.
    """

    def __init__(self, lab: Lab, aggregators: Aggregators) -> None:
        self.lab = lab
        self.aggregators = aggregators
        self.inner: list[Pipeline[Any]] = []
        self.pools: dict[str, Executor] = {}
        self.ranked: PriorityPool | None = None
        self.pipeline: Pipeline[Any] = self._build(lab.program)

    def release(self) -> None:
        """Take the pools back that are not needed any more."""
        for pool in self.pools.values():
            self.lab.host.release(pool)
        if self.ranked is not None:
            self.ranked.shutdown(wait=False)

    def _build(self, program: described.Program) -> Pipeline[Any]:
        sink = SinkConfig[Any](program.buffer_size)
        sources = [
            SourceConfig[Any](make_source(self.lab, source, record, self.inner), program.continuous, source.dedicated)
            for source, record in zip(program.sources, self.lab.sources, strict=True)
        ]
        if len(sources) == 1 and not program.sources[0].stages:
            start: Any = sources[0]
        else:
            start = Merge(
                [
                    PipelineConfig(config, self._stages(source.stages), SinkConfig(1))
                    for config, source in zip(sources, program.sources, strict=True)
                ],
                make_merge(self.lab) if program.merge else None,
            )
        config = PipelineConfig(start, self._stages(program.stages), sink)
        return build_pipeline(
            config,
            num_threads=program.num_threads,
            max_failures=limit_of(program.max_failures, -1),
            queue_class=self._queue if program.queue else None,
            task_hook_factory=self._hooks if program.hooks else None,
        )

    def _stages(self, stages: tuple[described.Stage, ...]) -> list[Any]:
        return [self._stage(stage) for stage in stages]

    def _stage(self, stage: described.Stage) -> Any:
        if isinstance(stage, described.Pipe):
            return self._pipe(stage)
        if isinstance(stage, described.Aggregate):
            # The engine's own and the user's are different code.
            how: Any = self._aggregator(stage) if stage.seed or stage.raise_at >= 0 else stage.n
            return Aggregate(how, drop_last=stage.drop_last)
        if isinstance(stage, described.Disaggregate):
            return Disaggregate()
        paths = [self._stages(path) for path in stage.paths]
        return PathVariants(_make_router(self.lab, stage), paths, stage.name, stage.batched)

    def _aggregator(self, stage: described.Aggregate) -> Gathering:
        if stage.name in self.aggregators:
            self.aggregators[stage.name].serve(self.lab)
        else:
            self.aggregators[stage.name] = Gathering(self.lab, stage)
        return self.aggregators[stage.name]

    def _pipe(self, pipe: described.Pipe) -> Any:
        executor: Executor | None = None
        if pipe.pool == "ranked":
            executor = self._ranked().get_executor()
        elif pipe.pool:
            executor = self.pools[pipe.name] = self._pool(pipe)

        return Pipe(
            make_op(self.lab, pipe),
            concurrency=pipe.concurrency,
            executor=executor,
            name=pipe.name,
            output_order="input" if pipe.ordered else "completion",
            max_failures=limit_of(pipe.max_failures, None),
            retries=pipe.retries,
            retry_delay=pipe.retry_delay,
            on_failure=_make_on_failure(self.lab, pipe) if pipe.on_failure else None,
            timeout=pipe.timeout or None,
            on_timeout="drop" if pipe.drop_overdue else "report",
        )

    def _ranked(self) -> PriorityPool:
        if self.ranked is None:
            self.ranked = self.lab.host.ranked_pool(self.lab.program.ranked_workers)
        return self.ranked

    def _pool(self, pipe: described.Pipe) -> Executor:
        host, program = self.lab.host, self.lab.program
        if pipe.pool == "process":
            # Fewer than items that may be under way, so that some wait next to those that are worked on.
            return host.process_pool(-(-pipe.concurrency // 3))
        executor = host.thread_pool(pipe.concurrency, fails_at=program.pools_fail_at)

        def work() -> None:
            # It may be shut down.
            with contextlib.suppress(RuntimeError):
                executor.submit(host.sleep, _OTHER_WORK)

        if program.busy_pools:
            if pipe.concurrency > 1:
                work()
            self.lab.other_work[pipe.name] = work
        return executor

    def _queue(self, info: StageInfo, *, buffer_size: int = 1, **_: Any) -> Any:
        return Passing(self.lab, info, buffer_size)

    def _hooks(self, info: StageInfo) -> list[TaskHook]:
        return [Counting(self.lab, info)]


def _make_on_failure(lab: Lab, pipe: described.Pipe) -> Callable[[FailedItem], None]:
    def on_failure(failed: FailedItem) -> None:
        lab.give_up(failed)
        if pipe.on_failure == "slow":
            lab.host.sleep(_SLOW_CALLBACK)
        if pipe.on_failure == "raise":
            raise ProvokedError("on_failure")

    return on_failure


def limit_of(text: str, default: Any) -> Any:
    """Return what is written as in `program.Pipe`, or the default for an empty string."""
    if not text:
        return default
    return Fraction(text) if "/" in text else int(text)
