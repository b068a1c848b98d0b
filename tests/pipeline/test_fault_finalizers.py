"""Test that no finalizer of the user's runs under the engine's lock, however late an op comes back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.kinds import text_log
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineFailure, TaskHook, build_pipeline, is_eof
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    MergeConfig,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    from spdl.pipeline import Pipeline


class Watch:
    """Makes objects whose finalizers note whether their thread holds the engine's lock."""

    # The pipeline that is watched, until the check.
    pipeline: Pipeline[Any]

    def __init__(self) -> None:
        self.lock: Any = None
        self.made = 0
        self.held: list[bool] = []

    def make(self) -> Watched:
        self.made += 1
        return Watched(self)

    def build(self, source: Any, *stages: Any, **options: Any) -> None:
        source = source if isinstance(source, MergeConfig) else SourceConfig(source)
        config = PipelineConfig(source, list(stages), SinkConfig(3))
        self.pipeline = build_pipeline(config, num_threads=2, **options)
        self.lock = self.pipeline._engine.lock

    def check(self) -> None:
        """Assert that all objects are gone, and that none of them was finalized under the lock."""
        assert self.made
        # What its failures hold goes with it.
        del self.pipeline
        assert wait_until(lambda: gc.collect() >= 0 and len(self.held) == self.made)
        assert not any(self.held)


class Watched:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __del__(self) -> None:
        self.watch.held.append(self.watch.lock._is_owned())


class Own(Executor):
    """An executor of which nothing is known but its interface."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - the future's.
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, daemon=True).start()
        return future


class Nothing(TaskHook):
    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


def late(watch: Watch, gate: threading.Event, kind: str) -> Any:
    """Return an op that comes back after it was given up."""

    def returns(_: Any) -> Any:
        assert gate.wait(20)
        return watch.make()

    def raises(_: Any) -> Any:
        mine = watch.make()
        assert gate.wait(20)
        raise ValueError(mine)

    def steps(_: Any) -> Iterator[Any]:
        yield watch.make()
        assert gate.wait(20)
        yield watch.make()

    def ends(_: Any) -> Generator[Any, None, Any]:
        yield watch.make()
        assert gate.wait(20)
        return watch.make()

    async def awaits(_: Any) -> Any:
        mine = watch.make()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(20)
        return mine

    async def steps_async(_: Any) -> AsyncIterator[Any]:
        yield watch.make()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            yield watch.make()

    return locals()[kind]


PLACES: dict[str, Callable[[ExitStack], dict[str, Any]]] = {
    "worker": lambda _: {},
    "threads": lambda stack: {"executor": stack.enter_context(ThreadPoolExecutor(2))},
    "executor": lambda _: {"executor": Own()},
}


CASES = [
    *((kind, place) for kind in ("returns", "raises", "steps", "ends") for place in PLACES),
    ("awaits", "worker"),
    ("steps_async", "worker"),
]


@pytest.mark.parametrize(("kind", "place"), CASES)
@pytest.mark.parametrize("hooked", [False, True], ids=["", "hooked"])
def test_what_comes_late_is_finalized_without_the_lock(kind: str, place: str, *, hooked: bool) -> None:
    watch, gate = Watch(), threading.Event()

    def items() -> Iterator[Any]:
        for _ in range(2):
            yield watch.make()

    with text_log(), ExitStack() as stack:
        stage = Pipe(late(watch, gate, kind), timeout=0.1, on_timeout="drop", concurrency=2, **PLACES[place](stack))
        watch.build(items(), stage, task_hook_factory=(lambda _: [Nothing()]) if hooked else None)
        with watch.pipeline.auto_stop():
            assert wait_until(lambda: watch.pipeline.statistics().stages[1].num_failed)
            gate.set()
            with contextlib.suppress(PipelineFailure):
                for item in watch.pipeline.get_iterator(timeout=20):
                    del item
    watch.check()


@pytest.mark.filterwarnings("ignore:Nothing came out of the pipeline")
@pytest.mark.parametrize("place", PLACES)
def test_what_comes_after_it_was_reported_as_late_is_finalized_without_the_lock(place: str) -> None:
    """Its op ends while the timer still writes the report."""
    watch, gate, reported = Watch(), threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "has worked on" in record.getMessage():
                gate.set()
                assert wait_until(lambda: watch.pipeline.statistics().stages[1].num_completed >= 1)
                # The next item has what the first one left be dropped.
                assert reported.wait(20)

    def items() -> Iterator[Any]:
        yield watch.make()
        assert wait_until(lambda: watch.pipeline.statistics().stages[1].num_completed >= 1, 20)
        yield None
        assert wait_until(lambda: len(watch.held) == 1 or watch.pipeline.statistics().stages[1].num_dropped == 2)
        reported.set()

    def op(x: Any) -> None:
        if x is not None:
            assert gate.wait(20)

    log, handler = logging.getLogger("spdl.pipeline"), Slow()
    with text_log(), ExitStack() as stack:
        log.addHandler(handler)
        stack.callback(log.removeHandler, handler)
        watch.build(items(), Pipe(op, timeout=0.1, **PLACES[place](stack)))
        with watch.pipeline.auto_stop():
            assert list(watch.pipeline.get_iterator(timeout=20)) == []
    watch.check()


class Joins(Aggregator[Any, Any]):
    """An aggregator that keeps nothing."""

    def accumulate(self, item: Any) -> None:
        pass

    def flush(self) -> int:
        return 1


class Iterated:
    """An iterable whose iterator is an object of the user's."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __iter__(self) -> Iterator[int]:
        return Iterating(self.watch)


class Iterating(Watched):
    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        raise StopIteration


def interrupted(_: Any) -> None:
    raise SystemExit


async def replaced(info: Any, inputs: Any, output: Any) -> None:
    """Pass on other objects than those that came."""
    while not is_eof(await inputs[0].get()):
        await output.put(object())


async def dropped(info: Any, inputs: Any, output: Any) -> None:
    """Pass nothing on."""
    while not is_eof(await inputs[0].get()):
        pass


def merging(op: Any) -> Callable[[Any], Any]:
    return lambda items: Merge([PipelineConfig(SourceConfig(items), [], SinkConfig(1))], op)


STAGES: dict[str, tuple[Callable[[Any], Any], list[Any], bool]] = {
    "aggregator": (iter, [Aggregate(Joins())], False),
    "hooked aggregator": (iter, [Aggregate(Joins())], True),
    "router": (iter, [PathVariants(interrupted, [[Pipe(bool)], [Pipe(bool)]])], False),
    "interrupt": (iter, [Pipe(interrupted)], False),
    "interrupt with retries": (iter, [Pipe(interrupted, retries=1)], False),
    "hooked interrupt": (iter, [Pipe(interrupted)], True),
    "merge that replaces": (merging(replaced), [], False),
    "merge that drops": (merging(dropped), [], False),
}


@pytest.mark.parametrize("name", STAGES)
def test_items_that_a_stage_lets_go_of_are_finalized_without_the_lock(name: str) -> None:
    source, stages, hooked = STAGES[name]
    watch = Watch()

    def items() -> Iterator[Any]:
        for _ in range(3):
            yield watch.make()

    with text_log():
        watch.build(source(items()), *stages, task_hook_factory=(lambda _: [Nothing()]) if hooked else None)
        with contextlib.suppress(PipelineFailure), watch.pipeline.auto_stop():
            for item in watch.pipeline.get_iterator(timeout=20):
                del item
    watch.check()


def test_iterators_that_have_ended_are_finalized_without_the_lock() -> None:
    watch = Watch()
    watch.build([Iterated(watch) for _ in range(3)], Disaggregate())
    with watch.pipeline.auto_stop():
        watch.made = 3
        assert list(watch.pipeline.get_iterator(timeout=20)) == []
    watch.check()


def test_the_end_of_a_list_that_only_its_iterator_holds_drops_the_items_without_the_lock() -> None:
    watch = Watch()

    class Items:
        def __iter__(self) -> Iterator[Watched]:
            return iter([watch.make() for _ in range(4)])

    watch.build(Items(), Pipe(lambda item: item is not None))
    with watch.pipeline.auto_stop():
        assert list(watch.pipeline.get_iterator(timeout=20)) == [True] * 4
    watch.check()
