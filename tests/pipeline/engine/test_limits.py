"""The number of threads and the capacity of queues are raised and lowered while a pipeline runs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.support import source, wait_until

from spdl.pipeline import build_pipeline
from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from spdl.pipeline import Pipeline


class Running:
    """An op that counts how many of its calls run at once, each until it is let go."""

    def __init__(self) -> None:
        self.now = self.most = self.ended = 0
        self.gate = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __call__(self, item: int) -> int:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        assert self.gate.acquire(timeout=20)
        with self._lock:
            self.now -= 1
            self.ended += 1
        return item


class TestThreads:
    def test_more_and_less(self) -> None:
        op = Running()
        pipeline = source(range(200)).pipe(op, concurrency=8).add_sink(1000).build(num_threads=1)
        with pipeline.auto_stop():
            assert wait_until(lambda: op.now == 1)
            pipeline.set_num_threads(5)
            assert wait_until(lambda: op.now == 5)
            pipeline.set_num_threads(2)
            op.gate.release(3)
            assert wait_until(lambda: op.now == 2)
            op.gate.release(10)
            # Between two ops of a thread there is one less.
            assert wait_until(lambda: op.ended == 13 and op.now == 2)
            time.sleep(0.05)
            assert op.now == 2
            assert op.most == 5
            pipeline.set_num_threads(3)
            assert wait_until(lambda: op.now == 3)
            op.gate.release(1000)
            assert sorted(pipeline) == list(range(200))
        assert op.most == 5

    def test_items_that_are_carried_on_wait_too(self) -> None:
        first, second = Running(), Running()
        builder = source(range(40)).pipe(first, concurrency=4).pipe(second, concurrency=4)
        pipeline = builder.add_sink(100).build(num_threads=4)
        with pipeline.auto_stop():
            assert wait_until(lambda: first.now == 4)
            pipeline.set_num_threads(1)
            first.gate.release(4)
            assert wait_until(lambda: first.ended == 4 and first.now + second.now == 1)
            time.sleep(0.05)
            assert first.now + second.now == 1
            first.gate.release(1000)
            second.gate.release(1000)
            assert sorted(pipeline) == list(range(40))

    def test_before_the_start(self) -> None:
        op = Running()
        pipeline = source(range(20)).pipe(op, concurrency=8).add_sink(100).build(num_threads=8)
        pipeline.set_num_threads(2)
        with pipeline.auto_stop():
            assert wait_until(lambda: op.now == 2)
            op.gate.release(100)
            assert sorted(pipeline) == list(range(20))
        assert op.most == 2

    def test_after_the_end(self) -> None:
        pipeline = source(range(3)).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == [0, 1, 2]
            pipeline.set_num_threads(4)

    @pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError)])
    def test_mistakes(self, value: Any, error: type[Exception]) -> None:
        pipeline = source([]).add_sink(1).build(num_threads=1)
        with pytest.raises(error, match="`num_threads` must be an int of at least 1"):
            pipeline.set_num_threads(value)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(["threads", "concurrency", "queue"]), st.integers(1, 9)), max_size=12))
    def test_nothing_is_lost_whatever_is_changed(self, changes: list[tuple[str, int]]) -> None:
        builder = source(range(300)).pipe(lambda x: x, concurrency=3, name="one")
        pipeline = builder.pipe(lambda x: x, concurrency=2, output_order="input", name="two").add_sink(2)
        with pipeline.build(num_threads=2).auto_stop() as running:
            got = []
            for number, item in enumerate(running):
                got.append(item)
                if number % 20 == 0 and changes:
                    kind, value = changes.pop()
                    match kind:
                        case "threads":
                            running.set_num_threads(value)
                        case "concurrency":
                            running.set_concurrency("two", value)
                        case _:
                            running.set_queue_capacity("sink" if value % 2 else "two", value)
        assert sorted(got) == list(range(300))


def settles_at(pipeline: Pipeline[Any], stage: str, size: int) -> bool:
    """Return whether so many items come to wait in front of a stage, and no more."""

    def waiting() -> int:
        (found,) = (each.queue_size for each in pipeline.statistics().stages if each.name == stage)
        return found

    def stays() -> bool:
        if waiting() != size:
            return False
        time.sleep(0.1)
        return waiting() == size

    # There may be as many before the stage has taken its first ones.
    return wait_until(stays)


class TestQueues:
    def test_in_front_of_a_stage(self) -> None:
        op = Running()
        # With a second thread, or nobody would pull the source while the op runs.
        pipeline = source(range(100)).pipe(op, name="op").add_sink(200).build(num_threads=2)
        with pipeline.auto_stop():
            assert settles_at(pipeline, "op", 2)
            pipeline.set_queue_capacity("op", 7)
            assert settles_at(pipeline, "op", 7)
            assert pipeline.statistics().stages[1].queue_capacity == 7
            pipeline.set_queue_capacity("op", 3)
            assert settles_at(pipeline, "op", 7)
            op.gate.release(5)
            assert settles_at(pipeline, "op", 3)
            op.gate.release(1000)
            assert list(pipeline) == list(range(100))

    def test_of_the_sink(self) -> None:
        pipeline = source(range(100)).pipe(lambda x: x, name="op").add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            # One has a place, and one keeps its slot.
            assert settles_at(pipeline, "sink", 2)
            pipeline.set_queue_capacity("sink", 10)
            assert settles_at(pipeline, "sink", 11)
            assert list(pipeline) == list(range(100))

    def test_behind_the_event_loop(self) -> None:
        async def op(item: int) -> int:
            return item

        pipeline = source(range(100)).pipe(op, name="op").add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            assert settles_at(pipeline, "sink", 2)
            pipeline.set_queue_capacity("sink", 10)
            assert settles_at(pipeline, "sink", 11)
            assert list(pipeline) == list(range(100))

    def test_after_the_end(self) -> None:
        pipeline = source(range(3)).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline) == [0, 1, 2]
            pipeline.set_queue_capacity("sink", 9)
        assert pipeline.statistics().stages[-1].queue_capacity == 3

    def test_of_a_merge_each_branch_is_meant(self) -> None:
        branches = [PipelineConfig(SourceConfig(range(50)), [], SinkConfig(1)) for _ in range(2)]
        config: PipelineConfig[Any] = PipelineConfig(Merge(branches), [], SinkConfig(1))
        with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
            assert settles_at(pipeline, "merge", 4)
            pipeline.set_queue_capacity("merge", 5)
            assert settles_at(pipeline, "merge", 10)
            assert sorted(pipeline) == sorted([*range(50), *range(50)])

    @pytest.mark.parametrize(
        ("stage", "capacity", "error", "message"),
        [
            ("missing", 2, ValueError, "got 'missing' .*0 stages have that name"),
            ("len", 2, ValueError, "got 'len' .*2 stages have that name"),
            ("one", 0, ValueError, "`capacity` must be an int of at least 1"),
            ("sink", "2", TypeError, "`capacity` must be an int of at least 1"),
            (1, 2, TypeError, "`stage` must be a str"),
        ],
    )
    def test_mistakes(self, stage: Any, capacity: Any, error: type[Exception], message: str) -> None:
        pipeline = source([]).pipe(abs, name="one").pipe(len).pipe(len).add_sink(1).build(num_threads=1)
        with pytest.raises(error, match=message):
            pipeline.set_queue_capacity(stage, capacity)
