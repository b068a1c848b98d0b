"""Test that pipelines with aggregators of the user's go on from a state."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.pipeline.aggregators import Several
from tests.pipeline.support import rest, source, through_json

from spdl.pipeline import Pipeline, PipelineFailure
from spdl.pipeline.defs import Aggregator
from spdl.testing import assert_resumes_exactly


class Buckets(Aggregator[int, list[int]]):
    """Gathers even and odd numbers apart, so that it keeps items past each result."""

    def __init__(self) -> None:
        self.buckets: tuple[list[int], list[int]] = ([], [])

    def accumulate(self, item: int) -> list[int] | None:
        bucket = self.buckets[item % 2]
        bucket.append(item)
        if len(bucket) < 3:
            return None
        batch = bucket.copy()
        bucket.clear()
        return batch

    def flush(self) -> list[int] | None:
        left = [*self.buckets[0], *self.buckets[1]]
        self.buckets = ([], [])
        return left or None


class Told(Buckets):
    def held_back(self) -> list[int]:
        return [*self.buckets[0], *self.buckets[1]]


class Wrong(Buckets):
    def held_back(self) -> list[object]:  # type: ignore[override]
        return [object()]


class TestAggregators:
    def test_one_that_says_what_it_keeps(self) -> None:
        def make() -> Pipeline[Any]:
            # Far more of one kind than of the other, so that some items wait long.
            numbers = [x if x % 9 == 1 else 2 * x for x in range(40)]
            return source(numbers).aggregate(Told()).add_sink(1).build(num_threads=1)

        assert_resumes_exactly(make)

    def test_stop_while_one_that_says_what_it_keeps_is_at_work(self) -> None:
        begun, gate = threading.Event(), threading.Event()

        class Slow(Told):
            def accumulate(self, item: int) -> list[int] | None:
                result = super().accumulate(item)
                if result is not None:
                    begun.set()
                    gate.wait(20)
                return result

        pipeline = source([1, 2, 4, 6, 8, 10]).aggregate(Slow()).add_sink(1).build(num_threads=2)
        with pipeline.auto_stop():
            assert begun.wait(20)
            # All other threads have left by then.
            late = threading.Timer(0.3, gate.set)
            late.start()
        late.join()

    def test_one_that_does_not_has_no_state_once_it_keeps_something(self) -> None:
        numbers = [x if x % 9 == 1 else 2 * x for x in range(40)]
        pipeline = source(numbers).aggregate(Buckets()).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            pipeline.get_item()
            with pytest.raises(
                RuntimeError, match=r"Buckets.* its `buckets` may hold .*`held_back\(\)` will do"
            ) as error:
                pipeline.state_dict()
        assert __file__ in str(error.value)

    @pytest.mark.parametrize("drop_last", [False, True])
    def test_one_that_keeps_items_over_the_end_of_an_epoch(self, *, drop_last: bool) -> None:
        builder = source(range(10), continuous=True).aggregate(Told(), drop_last=drop_last).add_sink(1)
        with builder.build(num_threads=1).auto_stop() as pipeline:
            epochs = [list(pipeline) for _ in range(3)]
        whole = [[0, 2, 4], [1, 3, 5]]
        assert epochs == [whole if drop_last else [*whole, [6, 8, 7, 9]]] * 3

    def test_one_whose_flush_drops_what_is_left(self) -> None:
        class Drops(Told):
            def flush(self) -> None:
                super().flush()

        builder = source(range(10), continuous=True).aggregate(Drops()).add_sink(1)
        with builder.build(num_threads=1).auto_stop() as pipeline:
            assert [list(pipeline) for _ in range(2)] == [[[0, 2, 4], [1, 3, 5]]] * 2

    def test_one_whose_last_items_are_dropped_warns(self) -> None:
        def make() -> Pipeline[Any]:
            return source(range(20)).aggregate(Told(), drop_last=True).add_sink(1).build(num_threads=1)

        with make().auto_stop() as pipeline:
            pipeline.get_item()
            state = through_json(pipeline)
        with pytest.warns(UserWarning, match=r"Told.*' holds items back and drops what is left") as caught:
            make().load_state_dict(state)
        assert caught[0].filename == __file__

    def test_one_that_says_something_wrong(self) -> None:
        pipeline = source(range(20)).aggregate(Wrong()).add_sink(1).build(num_threads=1)
        with pytest.raises(PipelineFailure) as failure, pipeline.auto_stop():
            list(pipeline)
        assert "`held_back()` returned an object that it was not given" in str(failure.value.exceptions)

    def test_a_long_batch_that_is_taken_apart_comes_once(self) -> None:
        def make() -> Pipeline[Any]:
            return source(range(3000)).aggregate(Several(1500)).disaggregate().add_sink(2).build(num_threads=1)

        pipeline = make()
        with pipeline.auto_stop():
            received = [pipeline.get_item() for _ in range(1700)]
            state = through_json(pipeline)
        assert received + rest(make(), state) == list(range(3000))

    def test_what_an_earlier_pipeline_has_left_in_it_is_forgotten(self) -> None:
        builder = source(range(20)).aggregate(Told()).add_sink(1)
        pipeline = builder.build(num_threads=1)
        with pipeline.auto_stop():
            got = [pipeline.get_item()]
            time.sleep(0.05)
        resumed = builder.build(num_threads=1)
        everything = [*got, *rest(resumed, through_json(pipeline))]
        assert sorted(x for batch in everything for x in batch) == list(range(20))
