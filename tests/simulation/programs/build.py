"""Makes the pipeline that a program describes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from spdl.pipeline import AsyncQueue, FailedItem, Pipeline, StageInfo, TaskHook, build_pipeline, is_eof, is_epoch_end
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

from . import program as described
from .behaviour import ends_batch, path_of
from .lab import Exclusive, Lab, ProvokedError
from .ops import make_op
from .sources import make_source

if TYPE_CHECKING:
    from concurrent.futures import Executor

# After so many items a queue or hook of the program raises.
RAISE_AFTER = 5
# For so many seconds a hook that is left late holds its stage.
LATE = 0.005


class Gathering(Aggregator[Any, Any]):
    """An aggregator that ends a batch at some items."""

    def __init__(self, lab: Lab, stage: described.Aggregate) -> None:
        self.lab = lab
        self.stage = stage
        self.turn = Exclusive(lab, f"aggregator {stage.name}")
        self.batch: list[Any] = []
        self.items = 0

    def accumulate(self, item: Any) -> Any:
        with self.turn.call():
            self.items += 1
            if self.items - 1 == self.stage.raise_at:
                self.lab.rest.fail()
                raise ProvokedError(self.stage.name)
            self.batch.append(item)
            return self._take() if ends_batch(self.stage, len(self.batch), item.key) else None

    def flush(self) -> Any:
        with self.turn.call():
            return self._take() if self.batch else None

    def _take(self) -> list[Any]:
        batch, self.batch = self.batch, []
        return batch


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
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.inner: list[Pipeline[Any]] = []
        self.pools: dict[str, Executor] = {}
        self.pipeline: Pipeline[Any] = self._build(lab.program)

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
                ]
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
            how: Any = Gathering(self.lab, stage) if stage.seed or stage.raise_at >= 0 else stage.n
            return Aggregate(how, drop_last=stage.drop_last)
        if isinstance(stage, described.Disaggregate):
            return Disaggregate()
        paths = [self._stages(path) for path in stage.paths]
        return PathVariants(_make_router(self.lab, stage), paths, stage.name, stage.batched)

    def _pipe(self, pipe: described.Pipe) -> Any:
        executor = None
        if pipe.pool:
            make = self.lab.host.thread_pool if pipe.pool == "thread" else self.lab.host.process_pool
            executor = make(pipe.concurrency)
            self.pools[pipe.name] = executor

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

    def _queue(self, info: StageInfo, *, buffer_size: int = 1, **_: Any) -> Any:
        return Passing(self.lab, info, buffer_size)

    def _hooks(self, info: StageInfo) -> list[TaskHook]:
        return [Counting(self.lab, info)]


def _make_on_failure(lab: Lab, pipe: described.Pipe) -> Callable[[FailedItem], None]:
    def on_failure(failed: FailedItem) -> None:
        lab.give_up(failed)
        if pipe.on_failure == "raise":
            raise ProvokedError("on_failure")

    return on_failure


def limit_of(text: str, default: Any) -> Any:
    """Return what is written as in `program.Pipe`, or the default for an empty string."""
    if not text:
        return default
    return Fraction(text) if "/" in text else int(text)


class Passing(AsyncQueue[Any]):
    """A queue that passes everything on, or raises once."""

    def __init__(self, lab: Lab, info: StageInfo, buffer_size: int) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.lab = lab
        self.items = 0
        self.is_first = info.stage_name in ("src", "src[0]")

    async def put(self, item: Any) -> None:
        if not is_eof(item) and not is_epoch_end(item):
            self.items += 1
            if self.lab.program.queue == "raise" and self.items == RAISE_AFTER:
                raise ProvokedError("queue")
            if self.is_first and self.lab.program.queue == "lose" and self.items == RAISE_AFTER:
                return
            if self.is_first and self.lab.program.queue == "double" and self.items == RAISE_AFTER:
                await super().put(item)
        elif self.is_first and self.lab.program.queue == "keep":
            # The end of an epoch, or of the input.
            return
        await super().put(item)


class Counting(TaskHook):
    """A hook that counts tasks, or raises once for each stage."""

    def __init__(self, lab: Lab, info: StageInfo) -> None:
        self.lab = lab
        self.name = info.stage_name

    @contextlib.asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.lab.hook_balance[self.name] += 1
        # It is left without an exception, however the stage has ended, and the pipeline does not end before.
        yield
        if self.lab.program.hooks == "late":
            await asyncio.sleep(LATE)
        self.lab.hook_balance[self.name] -= 1
        if self.lab.program.hooks == "late":
            self.lab.rest.fail()
            raise ProvokedError("stage hook")

    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.lab.hook_tasks[self.name] += 1
        if self.lab.program.hooks == "raise" and self.lab.hook_tasks[self.name] == RAISE_AFTER:
            raise ProvokedError("hook")
        yield
