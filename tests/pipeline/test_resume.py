"""Test what a pipeline's state says, and that pipelines go on from it: sources, failures, other ranks."""

from __future__ import annotations

import copy
import json
import random
import signal
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.kinds import text_log
from tests.pipeline.support import build, fails_at, rest, rests, source, through_json, wait_until, written_by_hand

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure
from spdl.source import EpochSampler, merge_states
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class _Items:
    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))


class _AsyncItems:
    def __init__(self, size: int) -> None:
        self.size = size

    async def __aiter__(self) -> AsyncIterator[int]:
        for item in range(self.size):
            yield item


class TestState:
    def test_before_the_start_and_after_the_end(self) -> None:
        pipeline = build(op=str)
        first = through_json(pipeline)
        with pipeline.auto_stop():
            everything = list(pipeline)
        assert rest(build(op=str), first) == everything
        # Nothing is left, which is no reason for a warning.
        assert rest(build(op=str), through_json(pipeline)) == []

    def test_it_is_small_with_an_item_that_is_stuck(self) -> None:
        go_on = threading.Event()

        def op(x: int) -> int:
            if x == 5:
                assert go_on.wait(600)
            return x

        def make() -> Pipeline[Any]:
            return build(range(10**9), op, concurrency=8, num_threads=8)

        pipeline = make()
        with pipeline.auto_stop():
            got = [pipeline.get_item(timeout=200) for _ in range(5_000)]
            state = pipeline.state_dict()
            assert len(json.dumps(state)) < 1_000
            go_on.set()
        resumed = make()
        resumed.load_state_dict(state)
        # An item may be overtaken by any number of others.
        missing = set(range(5_100)) - set(got)
        with resumed.auto_stop():
            while missing:
                got.append(resumed.get_item(timeout=200))
                missing.discard(got[-1])
        assert len(set(got)) == len(got)

    def test_it_is_taken_in_an_op_and_in_other_threads(self) -> None:
        states = []

        def op(x: int) -> int:
            states.append(pipeline.state_dict())
            return x

        pipeline = build(range(50), op, concurrency=2)
        stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                states.append(pipeline.state_dict())

        thread = threading.Thread(target=look)
        with pipeline.auto_stop():
            thread.start()
            assert len(list(pipeline)) == 50
        stop.set()
        thread.join()
        # No state has more of the first items than one that came later.
        assert all(json.dumps(state) for state in states)

    def test_a_state_that_is_taken_twice_is_the_same(self) -> None:
        pipeline = source(range(30)).pipe(lambda x: [x, x]).disaggregate().aggregate(4).add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            pipeline.get_item(timeout=20)
            assert wait_until(lambda: rests(pipeline))
            state = through_json(pipeline)
            assert state == through_json(pipeline)
        resumed = source(range(30)).pipe(lambda x: [x, x]).disaggregate().aggregate(4).add_sink(2).build(num_threads=1)
        resumed.load_state_dict(state)
        assert through_json(resumed) == state


class TestSignals:
    @pytest.mark.parametrize("batched", [False, True])
    @pytest.mark.parametrize("how", ["iterator", "get_item"])
    def test_a_handler_sees_as_received_what_the_loop_has(self, how: str, *, batched: bool) -> None:
        """The handler interrupts the reader at any step, also where an item was popped and not returned yet."""

        def make() -> PipelineBuilder[Any, Any]:
            # More than can be read until there were enough signals.
            return source(range(10**9)).aggregate(2).add_sink(8) if batched else source(range(10**9)).add_sink(8)

        pipeline = make().build(num_threads=1)
        got: list[Any] = []
        seen: list[tuple[int, Any]] = []

        def handle(*_: object) -> None:
            # What the loop has appended is what it has received; it may have one item more in hand.
            seen.append((len(got), pipeline.state_dict()))

        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
        try:
            with pipeline.auto_stop():
                items = iter(pipeline)
                deadline = time.monotonic() + 40
                while len(seen) < 300 and time.monotonic() < deadline:
                    got.append(next(items) if how == "iterator" else pipeline.get_item())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        size = 2 if batched else 1
        assert len(seen) > 20
        for count, state in seen:
            (progress,) = state["sources"]
            received = progress["position"] - sum(progress.get("out", [])[1::2])
            # `next()` may have returned while the loop has not stored the item yet.
            assert count * size <= received <= (count + 1) * size

    def test_an_item_that_a_ctrl_c_has_cost_comes_again(self) -> None:
        for _ in range(30):
            # More than can be read until the timer comes.
            pipeline = build(range(10**9))
            got: list[int] = []
            timer = threading.Timer(0.01, signal.raise_signal, [signal.SIGINT])
            # Only the main thread runs handlers, and it reads.
            with pipeline.auto_stop():
                iterator = iter(pipeline)
                try:
                    timer.start()
                    while True:
                        for item in iterator:
                            got.append(item)  # noqa: PERF402 - each is stored as soon as it has come.
                except KeyboardInterrupt:
                    pass
                state = through_json(pipeline)
            timer.join()
            resumed = build(range(10**9))
            resumed.load_state_dict(state)
            with resumed.auto_stop():
                more = list(islice(resumed, 5))
            # An item may have been lost between its return and the loop's variable, but never before.
            missing = sorted({*range(len(got) + 5)} - {*got, *more})
            assert len(missing) <= 1
            assert len({*got, *more}) == len(got) + len(more)


class TestSources:
    def test_one_that_seeks(self) -> None:
        asked = []

        class Seeks:
            def __iter__(self) -> Iterator[int]:
                return iter(range(1000))

            def iterate_from(self, position: int) -> Iterator[int]:
                asked.append(position)
                return iter(range(position, 1000))

        pipeline = build(Seeks(), num_threads=1)
        with pipeline.auto_stop():
            assert list(islice(pipeline, 500)) == list(range(500))
            state = through_json(pipeline)
        assert rest(build(Seeks()), state) == list(range(500, 1000))
        assert asked == [500]

    def test_one_that_does_not_is_replayed_without_ops(self) -> None:
        class Replays:
            def __iter__(self) -> Iterator[int]:
                return iter(range(100))

        seen: list[int] = []

        def op(x: int) -> int:
            seen.append(x)
            return x

        pipeline = build(Replays(), lambda x: x, name="op")
        with pipeline.auto_stop():
            assert list(islice(pipeline, 50)) == list(range(50))
            state = through_json(pipeline)
        resumed = build(Replays(), op, name="op")
        with pytest.warns(UserWarning, match="The source 'Replays' cannot begin at a position") as caught:
            resumed.load_state_dict(state)
        assert caught[0].filename == __file__
        with resumed.auto_stop():
            assert list(resumed) == list(range(50, 100))
        assert seen == list(range(50, 100))

    def test_another_order_is_noticed(self) -> None:
        class Shuffles:
            def __init__(self, seed: int) -> None:
                self.seed = seed

            def __iter__(self) -> Iterator[int]:
                return iter([(x * 7 + self.seed) % 100 for x in range(100)])

        pipeline = build(Shuffles(1))
        with pipeline.auto_stop():
            pipeline.get_item()
            state = through_json(pipeline)
        resumed = build(Shuffles(2))
        with pytest.warns(UserWarning, match="cannot begin"):
            resumed.load_state_dict(state)
        with pytest.raises(PipelineFailure) as failure, resumed.auto_stop():
            list(resumed)
        assert "has another order than when the state was taken: epoch 0 began with 1" in str(failure.value.exceptions)

    @pytest.mark.filterwarnings("ignore:The source .* cannot begin")
    def test_one_whose_order_follows_from_the_passes_before(self) -> None:
        class Draws:
            def __init__(self) -> None:
                self.random = random.Random(3)  # noqa: S311 - no secret.

            def __iter__(self) -> Iterator[int]:
                return iter(self.random.sample(range(12), 12))

        def make() -> Pipeline[Any]:
            return source(Draws(), continuous=True).add_sink(1).build(num_threads=1)

        # Where a cut lies between two passes, nothing is known of the next one. That takes a state.
        assert_resumes_exactly(make, epochs=3, cuts=[cut for cut in range(39) if cut % 13 in range(1, 5)])

    def test_one_with_a_state_of_its_own(self) -> None:
        class Epochs:
            """Yields other items in each pass, and knows which one is next."""

            def __init__(self) -> None:
                self.epoch = 0

            def __iter__(self) -> Iterator[int]:
                self.epoch += 1
                return iter(range(self.epoch * 100, self.epoch * 100 + 5))

            def iterate_from(self, position: int) -> Iterator[int]:
                self.epoch += 1
                return iter(range(self.epoch * 100 + position, self.epoch * 100 + 5))

            def state_dict(self) -> dict[str, int]:
                return {"epoch": self.epoch}

            def load_state_dict(self, state: dict[str, int]) -> None:
                self.epoch = state["epoch"]

        def make() -> Pipeline[Any]:
            return source(Epochs(), continuous=True).pipe(lambda x: x).aggregate(2).add_sink(2).build(num_threads=2)

        assert_resumes_exactly(make, epochs=4)

    def test_an_item_that_is_stuck_far_behind_the_others_is_of_the_same_epoch(self) -> None:
        expected = EpochSampler(300, seed=1, rank=0, world_size=1)
        first, second = list(expected), list(expected)
        go_on = threading.Event()

        def wait(index: int) -> int:
            assert index != first[0] or go_on.wait(60)
            return index

        def make(op: Callable[[int], int]) -> Pipeline[Any]:
            stage = source(EpochSampler(300, seed=1, rank=0, world_size=1), continuous=True)
            return stage.pipe(op, concurrency=2, name="op").add_sink(2).build(num_threads=2)

        pipeline = make(wait)
        with pipeline.auto_stop():
            got = list(islice(pipeline, 200))
            state = through_json(pipeline)
            go_on.set()
        resumed = make(lambda index: index)
        resumed.load_state_dict(state)
        with resumed.auto_stop():
            assert sorted([*got, *resumed]) == sorted(first)
            assert sorted(resumed) == sorted(second)
        assert first[0] not in got

    def test_one_that_has_become_shorter(self) -> None:
        pipeline = build(_Items(100))
        with pipeline.auto_stop():
            assert len(list(islice(pipeline, 50))) == 50
            state = through_json(pipeline)
        resumed = build(_Items(20))
        with pytest.warns(UserWarning, match="cannot begin"):
            resumed.load_state_dict(state)
        with pytest.raises(PipelineFailure) as failure, resumed.auto_stop():
            list(resumed)
        assert "has ended before item" in str(failure.value.exceptions)

    @pytest.mark.parametrize("size", [11, 30])
    @pytest.mark.parametrize("kind", [_Items, _AsyncItems])
    def test_one_that_has_become_longer_after_its_end(self, kind: type[_Items | _AsyncItems], size: int) -> None:
        def make(size: int) -> Pipeline[Any]:
            return source(kind(size)).add_sink(20).build(num_threads=1)

        pipeline = make(10)
        with pipeline.auto_stop():
            first = list(islice(pipeline, 5))
            assert wait_until(lambda: through_json(pipeline)["sources"][0]["passes"][0].get("end") == 10)
            state = through_json(pipeline)
        resumed, same = make(size), make(10)
        with pytest.warns(UserWarning, match="cannot begin"):
            resumed.load_state_dict(state)
        with pytest.warns(UserWarning, match="cannot begin"):
            same.load_state_dict(state)
        with same.auto_stop():
            assert first + list(same) == list(range(10))
        with pytest.raises(PipelineFailure) as failure, resumed.auto_stop():
            list(resumed)
        assert f"has {size} items in epoch 0, which had ended after 10" in str(failure.value.exceptions)


class TestFailures:
    def test_a_failed_item_is_done_with(self) -> None:
        def make() -> Pipeline[Any]:
            return build(range(20), fails_at(3, 4, 11), name="op", output_order="input", concurrency=2)

        with text_log():
            assert_resumes_exactly(make)

    def test_the_item_that_failed_the_pipeline_is_tried_again(self) -> None:
        bad = {3}

        def op(x: int) -> int:
            if x in bad:
                raise ValueError(x)
            return x

        pipeline = build(range(6), op, name="op", max_failures=0)
        got: list[int] = []
        with text_log(), pytest.raises(PipelineFailure), pipeline.auto_stop():
            got.extend(pipeline)
        assert got == [0, 1, 2]
        bad.clear()
        assert rest(build(range(6), op, name="op"), through_json(pipeline)) == [3, 4, 5]

    def test_an_op_that_fails_because_of_the_stop_is_tried_again(self) -> None:
        stopping = threading.Event()

        def op(x: int) -> int:
            if x == 2:
                assert stopping.wait(20)
                raise OSError("closed")
            return x

        def fail_late() -> None:
            assert wait_until(lambda: pipeline._engine.stopping)
            stopping.set()

        pipeline = build(range(6), op, name="op")
        failing = threading.Thread(target=fail_late)
        with text_log(), pipeline.auto_stop():
            assert [pipeline.get_item(), pipeline.get_item()] == [0, 1]
            failing.start()
        failing.join()
        assert sorted(rest(build(range(6), lambda x: x, name="op"), through_json(pipeline))) == [2, 3, 4, 5]

    def test_an_epoch_whose_last_items_fail_is_no_failure_after_a_resume(self) -> None:
        def make() -> Pipeline[Any]:
            return build(range(4), fails_at(2, 3), name="op")

        pipeline = make()
        with text_log(), pipeline.auto_stop():
            assert [pipeline.get_item(), pipeline.get_item()] == [0, 1]
            state = through_json(pipeline)
        with text_log():
            assert rest(make(), state) == []


class TestWarnings:
    def test_a_loop_for_each_epoch(self) -> None:
        pipeline = build(range(4))
        with pipeline.auto_stop(), pytest.warns(RuntimeWarning, match="has been read to its end before") as caught:
            assert [len(list(pipeline)) for _ in range(3)] == [4, 0, 0]
        assert "continuous=True" in str(caught[0].message)
        assert caught[0].filename == __file__

    def test_a_loop_that_was_left_may_be_gone_on_with(self) -> None:
        pipeline = build(range(4))
        with pipeline.auto_stop():
            assert list(islice(pipeline, 2)) == [0, 1]
            assert list(pipeline) == [2, 3]

    def test_a_stopped_one_is_not_read_to_its_end(self) -> None:
        pipeline = build(range(100))
        with pipeline.auto_stop():
            pipeline.get_item()
        for most in (98, 0):
            with pytest.warns(RuntimeWarning, match=r"was stopped before its end, so this .* only the \d+ items"):
                assert len(list(pipeline)) <= most

    def test_an_empty_source(self) -> None:
        used = iter([1])
        assert list(used) == [1]
        with (
            build(used).auto_stop() as pipeline,
            pytest.warns(RuntimeWarning, match="'list_iterator'.*yielded nothing"),
        ):
            assert list(pipeline) == []

    def test_what_a_filter_has_emptied_is_not_empty(self) -> None:
        with (
            build(range(3), lambda _: None).auto_stop() as pipeline,
            pytest.warns(RuntimeWarning, match="stage '<lambda>' dropped 3 items"),
        ):
            assert list(pipeline) == []


def _share(rank: int, world_size: int, op: Any = str, order: Any = "input") -> Pipeline[Any]:
    sampler = EpochSampler(20, shuffle=False, even_batches=False, rank=rank, world_size=world_size)
    return build(sampler, op, concurrency=4, output_order=order)


class TestOtherRanks:
    def test_one_that_has_received_nothing_says_its_own_rank(self) -> None:
        state = through_json(_share(0, 2))
        resumed = [_share(rank, 3) for rank in range(3)]
        for each in resumed:
            each.load_state_dict(state)
        merged = merge_states([through_json(each) for each in resumed])
        assert sorted(map(int, rest(_share(0, 1), merged))) == list(range(20))

    def test_a_source_that_refuses_its_state_does_so_when_it_is_loaded(self) -> None:
        state = through_json(_share(0, 2))
        other: Pipeline[Any] = build(
            EpochSampler(20, seed=1, rank=0, world_size=2), str, concurrency=4, output_order="input"
        )
        with pytest.raises(ValueError, match=r"The state is of sequential\(n=20\), and this sampler is of shuffled"):
            other.load_state_dict(state)
        written = copy.deepcopy(state)
        written["sources"][0]["state"] = {"kind": "x"}
        with pytest.raises(ValueError, match="and this is an EpochSampler"):
            _share(0, 2).load_state_dict(written_by_hand(written))

    def test_what_came_out_of_order_stays_received_in_a_pipeline_that_keeps_the_order(self) -> None:
        waiting = threading.Event()

        def op(x: int) -> str:
            if x == 0:
                waiting.wait(20)
            return str(x)

        with _share(0, 1, op, "completion").auto_stop() as pipeline:
            received = [pipeline.get_item() for _ in range(3)]
            state = through_json(pipeline)
            waiting.set()
        again = _share(0, 1, op)
        again.load_state_dict(state)
        assert through_json(again)["in_order"] is False
        with again.auto_stop():
            received.append(again.get_item())
            state = through_json(again)
        shares = [_share(rank, 2, op) for rank in range(2)]
        for share in shares:
            received += rest(share, state)
        assert sorted(map(int, received)) == list(range(20))

    def test_the_next_epoch_is_in_order_again(self) -> None:
        def make(order: Any) -> Pipeline[Any]:
            return (
                source([*"abc"], continuous=True)
                .pipe(str, concurrency=2, output_order=order)
                .add_sink(1)
                .build(num_threads=2)
            )

        with make("completion").auto_stop() as pipeline:
            pipeline.get_item()
            state = through_json(pipeline)
        resumed = make("input")
        resumed.load_state_dict(state)
        with resumed.auto_stop():
            assert through_json(resumed)["in_order"] is False
            assert len(list(resumed)) == 2
            assert list(resumed) == ["a", "b", "c"]
            assert through_json(resumed)["in_order"] is True
