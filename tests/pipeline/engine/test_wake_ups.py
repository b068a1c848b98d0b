"""Test that waiting threads are woken, also if one has looked and does not wait yet while the other one acts."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, wait_until

from spdl.pipeline import Pipeline, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def has_ended(pipeline: Pipeline[Any]) -> bool:
    """Return whether all threads of the pipeline have ended. It does not ask them to."""
    return not any(thread.is_alive() for thread in pipeline._engine.all_threads())


def comes_to_rest(pipeline: Pipeline[Any], *, ops: int) -> bool:
    """Return whether nothing moves: one last item has no room, so many workers are in ops, and all others are idle."""
    engine = pipeline._engine
    node: Any = engine.nodes[0]
    with engine.lock:
        event_loop: Any = engine.event_loop
        looked = event_loop is not None and not event_loop._woken
        seen = looked and not node.servers and node.wants_room
        idle = len(engine.workers.idle) + ops == len(engine.workers._gates)
        return engine.sources[0].ended and seen and len(node.queue) == 1 and idle


class TestWorkers:
    def test_idle_ones_are_woken_for_all_that_can_run(self) -> None:
        pause = threading.Event()
        together = threading.Barrier(3, timeout=10)

        def items() -> Iterator[int]:
            yield 0
            assert pause.wait(20)
            yield from (1, 2, 3)

        def op(x: int) -> int:
            if x:
                together.wait()
            return x

        with source(items()).pipe(op, concurrency=3).add_sink(3).build(num_threads=3).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=10) == 0
            # One worker waits in the source, the others are idle.
            assert wait_until(lambda: len(pipeline._engine.workers.idle) == 3)
            pause.set()
            assert sorted(pipeline.get_iterator(timeout=20)) == [1, 2, 3]

    @pytest.mark.parametrize("kind", ["event loop", "executor", "list"])
    def test_a_quick_source_is_pulled_for_what_needs_none_of_the_threads(self, kind: str) -> None:
        go_on = threading.Event()
        begun: list[int] = []
        pulled: list[int] = []

        def items() -> Iterator[int]:
            for number in itertools.count():
                pulled.append(number)
                yield number

        # Results wake workers, which then look for a source. Dropped items do not.
        def only_first(x: Any) -> Any:
            return x if x in {0, (0,)} else None

        async def only_first_later(x: Any) -> Any:
            return only_first(tuple(x) if isinstance(x, list) else x)

        def op(x: Any) -> Any:
            begun.append(x)
            assert go_on.wait(20)
            return x

        builder = source(items())
        with ThreadPoolExecutor(1) as executor:
            if kind == "executor":
                builder.pipe(only_first, executor=executor)
            elif kind == "list":
                builder.aggregate(1).pipe(only_first_later)
            else:
                builder.pipe(only_first_later)
            with builder.pipe(op).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
                assert wait_until(lambda: begun)
                before = len(pulled)
                assert wait_until(lambda: len(pulled) > before + 1000)
                go_on.set()
                assert pipeline.get_item(timeout=10) in {0, (0,)}

    def test_one_is_woken_for_another_source_than_the_one_that_blocks(self) -> None:
        go_on = threading.Event()
        go_on.set()

        def blocks() -> Iterator[str]:
            while True:
                assert go_on.wait(20)
                yield "blocks"

        def branch(items: Any) -> PipelineConfig[Any]:
            return PipelineConfig(src=SourceConfig(items), pipes=[], sink=SinkConfig(3))

        merge = Merge([branch(blocks()), branch(itertools.repeat("goes on"))])
        pipeline = build_pipeline(PipelineConfig(src=merge, pipes=[], sink=SinkConfig(10)), num_threads=1)
        with pipeline.auto_stop():
            for _ in range(20):
                go_on.set()
                assert wait_until(lambda: len(pipeline._engine.workers.idle) == 3)
                go_on.clear()
                # More items than the pipeline holds.
                results = [pipeline.get_item(timeout=15) for _ in range(30)]
                assert results.count("goes on") >= 15
            go_on.set()

    def test_a_stop_between_the_last_look_and_the_wait(self) -> None:
        pause = threading.Event()

        def items() -> Iterator[int]:
            # One worker waits here from the beginning, and the other is idle.
            assert pause.wait(20)
            yield 0

        class Idle(list[Any]):
            def append(self, gate: Any) -> None:
                # The request takes no lock, so it finds no idle worker yet.
                engine.request_stop()
                super().append(gate)

        pipeline = source(items()).pipe(lambda x: x).add_sink(3).build(num_threads=1)
        engine = pipeline._engine
        engine.workers.idle = Idle()
        pipeline.start()
        assert wait_until(lambda: engine.stopping)
        pause.set()
        assert wait_until(lambda: has_ended(pipeline))
        pipeline.stop()

    def test_a_stop_before_the_first_coroutine_appears(self) -> None:
        async def later(x: int) -> int:
            return x

        def op(x: int) -> Any:
            pipeline.stop()
            return later(x)

        pipeline = source([1]).pipe(op).add_sink(3).build(num_threads=1)
        pipeline.start()
        assert wait_until(lambda: pipeline._engine.event_loop is not None or has_ended(pipeline))
        assert wait_until(lambda: has_ended(pipeline))
        pipeline.stop()

    def test_a_stop_while_the_event_loop_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def later(x: int) -> int:
            return x

        def op(x: int) -> Any:
            return later(x)

        pipeline = source([1]).pipe(op).add_sink(3).build(num_threads=1)
        make = pipeline._engine._make_event_loop

        def stop_and_make(engine: Any) -> Any:
            # A finalizer may be called here. It cannot know of the loop, so the loop has to be told.
            pipeline.stop()
            return make(engine)

        monkeypatch.setattr(pipeline._engine, "_make_event_loop", stop_and_make)
        pipeline.start()
        assert wait_until(lambda: pipeline._engine.event_loop is not None)
        assert wait_until(lambda: has_ended(pipeline))
        pipeline.stop()

    def test_a_coroutine_that_appears_when_the_loop_has_ended(self) -> None:
        begun, go = threading.Event(), threading.Event()
        made = []

        async def later(x: int) -> int:
            return x

        def op(x: int) -> Any:
            begun.set()
            assert go.wait(20)
            made.append(later(x))
            return made[-1]

        pipeline = source([1]).pipe(op_async).pipe(op).add_sink(3).build(num_threads=1)
        pipeline.start()
        assert begun.wait(10)
        with pytest.raises(TimeoutError):
            pipeline.stop(timeout=0)
        assert wait_until(
            lambda: pipeline._engine.event_loop is not None and not pipeline._engine.event_loop.thread.is_alive()
        )
        go.set()
        pipeline.stop()
        # The coroutine did not run, and was closed so that Python does not complain.
        assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED


class ReadBetween:
    """What makes a sink be read empty just after a thread found it full, and before that thread has said so."""

    entries: Any

    def __init__(self, size: int) -> None:
        self.taken: list[Any] = []
        self.flag = False
        super().__init__(size)  # type: ignore[call-arg]

    @property
    def full(self) -> bool:
        """After taking an item, the reader looks at this flag to see whether a thread waits for room."""
        return self.flag

    @full.setter
    def full(self, full: bool) -> None:
        if full and not self.taken:
            while self.entries:
                self.taken.append(self.entries.popleft()[1])
        self.flag = full


async def op_async(x: int) -> int:
    await asyncio.sleep(0)
    return x


class TestRoom:
    @pytest.mark.parametrize("kind", ["source", "stage"])
    def test_made_between_the_loops_look_and_its_wait(self, kind: str) -> None:
        # Nothing else may happen meanwhile that would make the event loop look again.
        def items() -> Iterator[int]:
            yield 0
            yield 1
            node: Any = engine.nodes[0]
            # One is in the sink, and one keeps its slot.
            assert wait_until(lambda: len(sink.entries) == 2 and not node.servers)
            yield 2

        async def items_async() -> AsyncIterator[int]:
            await asyncio.sleep(0.02)
            yield 0
            yield 1

        builder = source(items_async()) if kind == "source" else source(items()).pipe(op_async)
        pipeline = builder.add_sink(1).build(num_threads=1)
        engine = pipeline._engine
        sink: Any = type("Sink", (ReadBetween, type(engine.sink)), {})(1)
        engine.sink = sink
        node = engine.nodes[-1] if engine.nodes else engine.sources[0]
        node.write_to(sink, None)
        with pipeline.auto_stop():
            # The pipeline goes on while the consumer is busy with the items that it took.
            assert wait_until(lambda: sink.taken and sink.entries)
            assert [*sink.taken, pipeline.get_item(timeout=10)] == list(range(len(sink.taken) + 1))

    def test_in_the_sink_behind_a_stage_that_the_event_loop_serves(self) -> None:
        with source(range(3)).pipe(op_async).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            # One is in the sink, one keeps its slot, and one waits. Nothing else will happen.
            assert wait_until(lambda: comes_to_rest(pipeline, ops=0))
            assert list(pipeline.get_iterator(timeout=10)) == list(range(3))

    def test_in_a_branch_that_the_event_loop_serves(self) -> None:
        held = threading.Event()

        def hold(x: int) -> int:
            assert held.wait(20)
            return x

        branch: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(8)), [Pipe(op_async)], SinkConfig(1))
        config: PipelineConfig[Any] = PipelineConfig(Merge([branch]), [Pipe(hold)], SinkConfig(100))
        with build_pipeline(config, num_threads=2).auto_stop() as pipeline:
            # One item is held by the op. Two wait in front of it, two in front of the merge, and one each is in the
            # slots of the merge and the async stage. The last one waits for the event loop. Nothing else will happen.
            assert wait_until(lambda: comes_to_rest(pipeline, ops=1))
            held.set()
            assert list(pipeline.get_iterator(timeout=10)) == list(range(8))


class TestReaders:
    def test_one_that_waits_without_limit_is_told_of_an_item_and_of_the_end(self) -> None:
        pause, end = threading.Event(), threading.Event()

        def items() -> Iterator[int]:
            assert pause.wait(20)
            yield 7
            assert end.wait(20)

        got: list[int] = []
        with source(items()).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            reader = threading.Thread(target=lambda: got.extend(pipeline), daemon=True)
            reader.start()
            assert wait_until(lambda: pipeline._engine.sink.readers)
            pause.set()
            assert wait_until(lambda: got == [7] and pipeline._engine.sink.readers)
            end.set()
            reader.join(20)
            assert not reader.is_alive()

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_one_that_is_interrupted_passes_on_what_woke_it(self) -> None:
        pause = threading.Event()
        got: list[int] = []

        def items() -> Iterator[int]:
            assert pause.wait(20)
            yield 7

        class Readers(list[Any]):
            def remove(self, gate: Any) -> None:
                # The reader leaves. At this moment an item comes and wakes this reader and no other.
                pause.set()
                assert wait_until(lambda: gate not in self)
                super().remove(gate)

        def interrupt(*_: object) -> None:
            raise InterruptedError

        pipeline = source(items()).add_sink(1).build(num_threads=1)
        engine = pipeline._engine
        engine.sink.readers = Readers()
        other = threading.Thread(target=lambda: got.append(pipeline.get_item(timeout=20)))

        def send() -> None:
            # Not before this thread waits as well, which may take long on a busy machine.
            assert wait_until(lambda: len(engine.sink.readers) == 2)
            time.sleep(0.1)
            signal.pthread_kill(interrupted, signal.SIGALRM)

        interrupted, sender = threading.get_ident(), threading.Thread(target=send)
        with pipeline.auto_stop():
            other.start()
            assert wait_until(lambda: len(engine.sink.readers) == 1)
            before = signal.signal(signal.SIGALRM, interrupt)
            begin = time.monotonic()
            try:
                with pytest.raises(InterruptedError):  # noqa: PT012 - the signal comes in the read.
                    sender.start()
                    pipeline.get_item(timeout=20)
            finally:
                sender.join()
                signal.signal(signal.SIGALRM, before)
            other.join(10)
            assert got == [7]
            assert time.monotonic() - begin < 15
