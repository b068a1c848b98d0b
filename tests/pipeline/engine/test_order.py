"""Test stages that keep the order of their input."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, slow_first, source, twice, twice_async, wait_until

from spdl.pipeline import AsyncQueue, FailedItem, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class TestOrder:
    @pytest.mark.parametrize("concurrency", [1, 2, 5])
    def test_input_order_is_kept(self, concurrency: int) -> None:
        builder = source(range(40)).pipe(slow_first, concurrency=concurrency, output_order="input")
        assert run(builder, num_threads=5) == list(range(40))

    def test_async_ops(self) -> None:
        async def op(x: int) -> int:
            await asyncio.sleep(0.02 if x % 5 == 0 else 0)
            return x

        assert run(source(range(40)).pipe(op, concurrency=4, output_order="input")) == list(range(40))

    def test_completion_order_lets_fast_items_pass(self) -> None:
        last = threading.Event()

        def op(x: int) -> int:
            if x == 0:
                assert last.wait(20)
            if x == 9:
                last.set()
            return x

        got = run(source(range(10)).pipe(op, concurrency=2))
        assert sorted(got) == list(range(10))
        # All but the last one have passed the first one.
        assert got.index(0) >= 8

    def test_drops_and_failures_leave_no_gap(self) -> None:
        def op(x: int) -> int | None:
            slow_first(x)
            if x % 3 == 1:
                raise ValueError(x)
            return x if x % 3 else None

        assert run(source(range(20)).pipe(op, concurrency=4, output_order="input")) == [
            x for x in range(20) if x % 3 == 2
        ]

    @pytest.mark.parametrize("following", [twice, lambda x: twice(x + 0), lambda x: None if x % 2 else x])
    def test_a_stage_behind_it_need_not_keep_it(self, following: Callable[[int], Any]) -> None:
        builder = source(range(20)).pipe(lambda x: x, concurrency=2, output_order="input").pipe(following)
        got = run(builder, num_threads=1)
        expected = range(0, 20, 2) if len(got) < 20 else [y for x in range(20) for y in (x, x + 100)]
        assert sorted(got) == sorted(expected)

    @pytest.mark.parametrize("op", [twice, twice_async, functools.partial(twice), lambda x: twice_async(x + 0)])
    def test_generators_in_input_order(self, op: Callable[[int], Any]) -> None:
        expected = [y for x in range(20) for y in (x, x + 100)]
        assert run(source(range(20)).pipe(op, concurrency=3, output_order="input")) == expected

    def test_what_a_generator_behind_a_slow_value_has_given_leaves_before_the_rest(self) -> None:
        waits = threading.Event()
        goes_on = threading.Event()

        def results() -> Iterator[str]:
            yield "first"
            # The first result is kept back while the op on the item before takes its time.
            waits.set()
            assert goes_on.wait(20)
            yield "last"

        def op(x: int) -> Any:
            if x:
                return results()
            assert waits.wait(20)
            return "value"

        builder = source(range(2)).pipe(op, concurrency=2, output_order="input")
        with builder.add_sink(9).build(num_threads=3).auto_stop() as pipeline:
            try:
                # The generator has not ended.
                assert [pipeline.get_item(timeout=10) for _ in range(2)] == ["value", "first"]
            finally:
                goes_on.set()
            assert list(pipeline.get_iterator(timeout=10)) == ["last"]

    def test_generators_behind_a_slow_one_pause(self) -> None:
        gate = threading.Event()
        produced: list[int] = []

        def op(x: int) -> Iterator[int]:
            if x == 0:
                assert gate.wait(20)
            for y in range(20):
                if x:
                    produced.append(y)
                yield y

        builder = source(range(2)).pipe(op, concurrency=2, output_order="input").add_sink(3)
        with builder.build(num_threads=2).auto_stop() as pipeline:
            # Two results more than there are slots.
            assert wait_until(lambda: len(produced) >= 3)
            assert not wait_until(lambda: len(produced) > 4, seconds=0.2)
            gate.set()
            assert list(pipeline.get_iterator(timeout=10)) == [*range(20), *range(20)]


class _Queue(AsyncQueue[Any]):
    """A queue that carries the items, since one of its methods is the user's."""

    async def put(self, item: Any) -> None:
        await super().put(item)


@pytest.mark.parametrize("queue_class", [None, _Queue])
@pytest.mark.parametrize("following", [False, True])
def test_what_is_finished_comes_though_an_earlier_item_fails_the_pipeline(
    queue_class: type[_Queue] | None, *, following: bool
) -> None:
    def op(item: int) -> int:
        if item == 0:
            assert wait_until(lambda: stage.order is not None and stage.order.buffered == 2)
            raise ValueError(item)
        return item

    def told(_: FailedItem) -> None:
        # Another thread may look after the end of the stages at this moment.
        with pipeline._engine.lock:
            pipeline._engine.settle()
        # A queue is told of it on the event loop.
        queue = pipeline._engine.nodes[pipeline._engine.nodes.index(stage) + 1 :][:1]
        wait_until(lambda: all(getattr(node, "ending", True) for node in queue), 1)

    builder = source(range(3)).pipe(op, name="op", concurrency=3, output_order="input", max_failures=0, on_failure=told)
    if following:
        builder.pipe(lambda x: x)
    pipeline = builder.add_sink(9).build(num_threads=3, queue_class=queue_class)
    (stage,) = [node for node in pipeline._engine.nodes if node.name == "op"]
    got: list[int] = []

    def read() -> None:
        with pipeline.auto_stop():
            got.extend(pipeline.get_iterator(timeout=10))

    with pytest.raises(PipelineFailure):
        read()
    assert got == [1, 2]
    # The item that failed the pipeline is not done with: a resumed run tries it again.
    assert pipeline.statistics().in_flight == 1
