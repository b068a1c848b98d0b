"""Test graphs with merges and forks."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineBuilder, PipelineFailure, build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
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
    from collections.abc import AsyncIterator, Iterator


def chain(items: Any, *stages: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(items), stages, SinkConfig(1))


def merged(*branches: PipelineConfig[Any], stages: Any = (), sink: int = 3) -> PipelineConfig[Any]:
    return PipelineConfig(Merge(branches), stages, SinkConfig(sink))


def run(config: PipelineConfig[Any], num_threads: int = 3) -> list[Any]:
    with build_pipeline(config, num_threads=num_threads).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=20))


class TestMerge:
    def test_all_items_of_all_branches(self) -> None:
        config = merged(chain(range(100)), chain(range(100, 150), Pipe(lambda x: x)), stages=[Pipe(lambda x: -x)])
        assert sorted(run(config)) == list(range(-149, 1))

    def test_a_blocked_branch_does_not_hold_up_the_others(self) -> None:
        gate = threading.Event()

        def blocked() -> Iterator[int]:
            gate.wait(20)
            yield -1

        pipeline = build_pipeline(merged(chain(blocked()), chain(blocked()), chain(range(100))), num_threads=1)
        with pipeline.auto_stop():
            assert [pipeline.get_item(timeout=10) for _ in range(100)] == list(range(100))
            gate.set()
            assert list(pipeline.get_iterator(timeout=10)) == [-1, -1]

    def test_nested(self) -> None:
        inner = merged(chain(range(10)), chain(range(10, 20), Aggregate(3), Disaggregate()))
        assert sorted(run(merged(inner, chain(range(20, 30)), chain([])))) == list(range(30))

    def test_async_branches(self) -> None:
        async def items() -> AsyncIterator[int]:
            for x in range(20):
                await asyncio.sleep(0)
                yield x

        async def op(x: int) -> int:
            await asyncio.sleep(0)
            return x

        config = merged(chain(items()), chain(range(20, 60), Pipe(op, concurrency=5)), stages=[Pipe(op, concurrency=2)])
        assert sorted(run(config)) == list(range(60))

    def test_a_failed_branch_ends_the_others(self) -> None:
        def failing() -> Iterator[int]:
            yield 1
            raise OSError("gone")

        pipeline = build_pipeline(merged(chain(itertools.count()), chain(failing())), num_threads=2)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=10))
        assert isinstance(caught.value.exceptions[0], OSError)
        (note,) = caught.value.exceptions[0].__notes__
        assert note.endswith(":2:src[1]")
        pipeline.stop()

    def test_failed_items_name_their_source(self) -> None:
        def picky(x: int) -> int:
            if x == 12:
                raise ValueError("twelve")
            return x

        config = merged(chain(range(5)), chain(range(10, 15)), stages=[Pipe(picky)])
        pipeline = build_pipeline(config, num_threads=1)
        with pipeline.auto_stop():
            assert sorted(pipeline) == [0, 1, 2, 3, 4, 10, 11, 13, 14]
        (item,) = pipeline.failures()
        assert (item.sources, item.positions) == ((1,), (2,))
        assert [stage.name for stage in pipeline.statistics().stages] == ["src[0]", "src[1]", "merge", "picky", "sink"]
        assert pipeline.statistics().in_flight == 0

    def test_mistakes(self) -> None:
        with pytest.raises(ValueError, match="at least one PipelineConfig"):
            Merge([])
        with pytest.raises(TypeError, match=r"`pipeline_configs\[1\]` must be a PipelineConfig, got \[\]"):
            Merge([chain([]), []])  # type: ignore[list-item]
        assert isinstance(Merge([chain([])]), MergeConfig)

    def test_repr(self) -> None:
        lines = repr(merged(chain([1], Pipe(len)), chain((2,)))).splitlines()
        assert lines[0:3] == ["PipelineConfig", "  merge", "    PipelineConfig"]
        assert lines[-1] == "  sink(buffer_size=3)"
        assert "      len(concurrency=1, op=len)" in lines


def fails_on_three(x: int) -> int:
    if x == 3:
        raise ValueError("three")
    return x


def several_indices(_: object) -> Iterator[int]:
    yield 0
    yield 1


async def several_indices_later(_: object) -> AsyncIterator[int]:
    yield 0
    yield 1


def routed(items: Any, router: Any, *paths: Any, **kwargs: Any) -> PipelineBuilder[Any, Any]:
    return PipelineBuilder[Any, Any]().add_source(items).path_variants(router, paths, **kwargs)


class TestPathVariants:
    def test_each_item_takes_its_path(self) -> None:
        builder = routed(
            range(10), lambda x: x % 3, [Pipe(lambda x: ("a", x))], [Pipe(lambda x: ("b", x))], [Pipe(str)]
        )
        assert sorted(run(builder.add_sink(2).get_config()), key=repr) == sorted(
            [("a", 0), ("b", 1), "2", ("a", 3), ("b", 4), "5", ("a", 6), ("b", 7), "8", ("a", 9)], key=repr
        )

    def test_an_async_router(self) -> None:
        async def router(x: int) -> int:
            await asyncio.sleep(0)
            return x % 2

        builder = routed(range(50), router, [Pipe(lambda x: x)], [Pipe(lambda x: -x)])
        assert sorted(run(builder.add_sink(2).get_config())) == sorted(x if x % 2 == 0 else -x for x in range(50))

    def test_bools_are_indices(self) -> None:
        builder = routed(range(4), lambda x: x > 1, [Pipe(lambda x: -x)], [Pipe(lambda x: x)])
        assert sorted(run(builder.add_sink(2).get_config())) == [-1, 0, 2, 3]

    def test_paths_batch_apart(self) -> None:
        builder = routed(range(10), lambda x: x % 2, [Aggregate(3)], [Aggregate(2), Pipe(tuple)])
        got = run(builder.add_sink(2).get_config())
        assert sorted(got, key=repr) == sorted([[0, 2, 4], [6, 8], (1, 3), (5, 7), (9,)], key=repr)

    def test_a_full_path_does_not_hold_up_the_others(self) -> None:
        gate = threading.Event()
        builder = routed(range(40), lambda x: int(x >= 20), [Pipe(lambda x: gate.wait(20) and x)], [Pipe(lambda x: x)])
        pipeline = builder.add_sink(2).build(num_threads=2)
        with pipeline.auto_stop():
            assert [pipeline.get_item(timeout=10) for _ in range(20)] == list(range(20, 40))
            gate.set()
            assert sorted(pipeline.get_iterator(timeout=10)) == list(range(20))

    def test_the_look_ahead_is_bounded(self) -> None:
        gate = threading.Event()
        pulled = itertools.count()
        builder = routed(pulled, lambda _: 0, [Pipe(lambda x: gate.wait(20) and x)], [Pipe(len)])
        pipeline = builder.add_sink(2).build(num_threads=2)
        with pipeline.auto_stop():
            with pytest.raises(TimeoutError):
                pipeline.get_item(timeout=0.1)
            assert next(pulled) <= 32 + 8
            gate.set()

    @pytest.mark.parametrize(
        ("answer", "error", "message"),
        [
            (2, IndexError, "must return 0 to 1, got 2"),
            (-1, IndexError, "must return 0 to 1, got -1"),
            ("0", TypeError, "must return an int, got '0'"),
            (None, TypeError, "must return an int, got None"),
            (iter(()), TypeError, "must return an int, got <tuple_iterator object"),
        ],
    )
    def test_a_wrong_answer_fails_the_pipeline(self, answer: Any, error: type[Exception], message: str) -> None:
        builder = routed(range(10), lambda _: answer, [Pipe(len)], [Pipe(len)], name="fork")
        pipeline = builder.add_sink(2).build(num_threads=2)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        (failure,) = caught.value.exceptions
        assert isinstance(failure, error)
        assert message in str(failure)
        (note,) = failure.__notes__
        assert note.endswith(":1:fork, source item 0")
        pipeline.stop()

    @pytest.mark.parametrize("plain", [True, False])
    @pytest.mark.parametrize("router", [several_indices, several_indices_later])
    def test_several_answers_fail_the_pipeline(self, router: Any, *, plain: bool) -> None:
        wrapped = lambda x: router(x)  # noqa: E731, PLW0108 - it does not tell what it returns before it is called.
        builder = routed(range(10), router if plain else wrapped, [Pipe(abs)], [Pipe(abs)], name="fork")
        pipeline = builder.add_sink(2).build(num_threads=2)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        (failure,) = caught.value.exceptions
        assert isinstance(failure, TypeError)
        assert "The router of 'fork' must return an int, got <" in str(failure)
        assert failure.__notes__[0].endswith(":1:fork, source item 0")
        pipeline.stop()

    def test_a_function_may_return_a_coroutine_of_the_index(self) -> None:
        async def parity(x: int) -> int:
            return x % 2

        builder = routed(range(9), lambda x: parity(x), [Pipe(lambda x: -x)], [Pipe(abs)])  # noqa: PLW0108 - as above.
        assert sorted(run(builder.add_sink(2).get_config())) == [-8, -6, -4, -2, 0, 1, 3, 5, 7]

    def test_a_router_that_raises_fails_the_pipeline(self) -> None:
        pipeline = routed([0, 1], lambda x: 1 // x, [Pipe(len)]).add_sink(2).build(num_threads=2)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
        pipeline.stop()

    @pytest.mark.parametrize(
        ("router", "paths", "message"),
        [
            (3, [[Pipe(len)]], "`router` must be callable, got 3"),
            (len, [], "`paths` must be a sequence of at least one path, got "),
            (len, [[Pipe(len)], []], r"`paths\[1\]` must be a sequence of at least one stage, got "),
            (len, [[SinkConfig(1)]], r"`paths\[0\]\[0\]` must be a stage, .*got sink\(buffer_size=1\)"),
        ],
    )
    def test_mistakes(self, router: Any, paths: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            PathVariants(router, paths)

    def test_statistics_name_every_stage(self) -> None:
        builder = routed(range(9), lambda x: x % 2, [Pipe(abs)], [Pipe(str), Pipe(len)], name="fork")
        pipeline = builder.add_sink(2).build(num_threads=1)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 9
        stages = pipeline.statistics().stages
        assert [stage.name for stage in stages] == ["src", "fork", "abs", "str", "len", "fork_merge", "sink"]
        assert [stage.num_emitted for stage in stages] == [9, 9, 5, 4, 4, 9, 9]

    def test_repr(self) -> None:
        text = repr(
            routed([], len, [Pipe(abs)], [PathVariants(len, [[Pipe(str)]], "inner")], name="outer")
            .add_sink(1)
            .get_config()
        )
        assert (
            "  outer(router=len)\n    path 0\n      abs(concurrency=1, op=abs)\n    path 1\n      inner(router=len)"
            in text
        )


class TestBatchedVariants:
    def run(self, items: Any, router: Any, *paths: Any, num_threads: int = 3) -> list[Any]:
        builder = routed(items, router, *paths, batched=True)
        return run(builder.add_sink(2).get_config(), num_threads)

    def test_shares_are_joined_in_the_order_of_the_paths(self) -> None:
        batches = [[0, 1, 2, 3], [4, 6], [7, 9, 11]]
        got = self.run(batches, by_parities, [Pipe(lambda xs: [-x for x in xs])], [Pipe(lambda xs: xs)])
        assert got == [[0, -2, 1, 3], [-4, -6], [7, 9, 11]]

    def test_an_async_router(self) -> None:
        async def router(batch: list[int]) -> list[int]:
            await asyncio.sleep(0)
            return by_parities(batch)

        assert self.run([[1, 2], [4, 3]], router, [Pipe(list)], [Pipe(list)]) == [[2, 1], [4, 3]]
        wrapped = lambda xs: router(xs)  # noqa: E731, PLW0108 - as above.
        assert self.run([[1, 2], [4, 3]], wrapped, [Pipe(list)], [Pipe(list)]) == [[2, 1], [4, 3]]

    def test_paths_of_different_speed_stay_in_step(self) -> None:
        def slow(xs: list[int]) -> list[int]:
            time.sleep(0.002 if len(xs) % 2 else 0)
            return xs

        batches = [list(range(size)) for size in range(1, 40)]
        paths = [Pipe(slow, concurrency=4)], [Pipe(lambda xs: xs, concurrency=2), Pipe(slow, concurrency=3)]
        got = self.run(batches, by_parities, *paths)
        assert [sorted(batch) for batch in got] == batches

    def test_a_path_that_drops_fails_or_multiplies_does_not_lose_step(self) -> None:
        def fails(xs: list[int]) -> list[int]:
            if len(xs) == 2:
                raise ValueError("two")
            return xs

        def splits(xs: list[int]) -> Iterator[list[int]]:
            for x in xs:
                yield [x]

        batches = [list(range(size)) for size in (2, 3, 4, 5, 6)]
        dropped = self.run(batches, by_parities, [Pipe(lambda xs: xs if len(xs) != 2 else None)], [Pipe(list)])
        assert dropped == [[0, 1], [1], [1, 3], [0, 2, 4, 1, 3], [0, 2, 4, 1, 3, 5]]
        failed = self.run(batches, by_parities, [Pipe(fails)], [Pipe(list)])
        assert failed == dropped
        assert self.run(batches, by_parities, [Pipe(splits)], [Pipe(splits), Pipe(list)]) == [
            [*range(0, size, 2), *range(1, size, 2)] for size in (2, 3, 4, 5, 6)
        ]
        assert self.run([[0, 2], [1]], by_parities, [Pipe(lambda _: None)], [Pipe(list)]) == [[1]]

    def test_what_a_path_passes_on_is_listed_without_the_lock(self) -> None:
        changed = threading.Event()

        def change() -> None:
            pipeline.set_concurrency("same", 2)
            changed.set()

        def wait_for_change(x: int) -> int:
            # Another thread can call the pipeline while this op takes long.
            threading.Thread(target=change).start()
            assert changed.wait(10)
            return -x

        builder = routed([[0]], by_parities, [Pipe(lambda xs: map(wait_for_change, xs))], [Pipe(list)], batched=True)
        pipeline = builder.pipe(lambda xs: xs, name="same").add_sink(1).build(num_threads=2)
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=20)) == [[0]]

    def test_what_takes_long_to_list_is_not_overtaken(self) -> None:
        def in_two(xs: list[int]) -> Iterator[Any]:
            yield map(slow, xs)
            yield [-x for x in xs]

        def slow(x: int) -> int:
            time.sleep(0.02)
            return x

        batches = [[2, 4, 3], [6], [5], [8, 8]]
        got = self.run(batches, by_parities, [Pipe(in_two)], [Pipe(in_two)], num_threads=4)
        assert got == [[2, 4, -2, -4, 3, -3], [6, -6], [5, -5], [8, 8, -8, -8]]

    @pytest.mark.parametrize(
        ("op", "error", "message"),
        [
            (len, TypeError, "Path 1 of 'fork' must pass on lists, as its router splits batches, got 2."),
            (lambda xs: map(fails_on_three, xs), ValueError, "three"),
        ],
    )
    def test_what_cannot_be_listed_fails_the_pipeline(self, op: Any, error: type[Exception], message: str) -> None:
        given = threading.Event()

        def after_the_first(xs: list[int]) -> Any:
            # What is upstream of a failed merge is dropped, so the first batch must have passed it.
            return op(xs) if xs and given.wait(10) else xs

        builder = routed([[2], [5, 3]], by_parities, [Pipe(list)], [Pipe(after_the_first)], name="fork", batched=True)
        pipeline = builder.add_sink(2).build(num_threads=2)
        pipeline.start()
        assert pipeline.get_item(timeout=10) == [2]
        given.set()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        (failure,) = caught.value.exceptions
        assert isinstance(failure, error)
        assert message in str(failure)
        (note,) = failure.__notes__
        assert note.endswith(":fork_merge, source item 1")
        pipeline.stop()

    def test_nothing_stays_in_flight(self) -> None:
        builder = routed([[0, 1], [2], []], by_parities, [Pipe(lambda _: None)], [Pipe(list)], batched=True)
        pipeline = builder.add_sink(1).build(num_threads=2)
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=10)) == [[1]]
        assert pipeline.statistics().in_flight == 0

    def test_epochs(self) -> None:
        builder = PipelineBuilder[Any, Any]().add_source([[0, 1], [2]], continuous=True)
        builder.path_variants(by_parities, [[Pipe(list, concurrency=2)], [Pipe(list)]], batched=True)
        with builder.add_sink(1).build(num_threads=2).auto_stop() as pipeline:
            assert [list(pipeline.get_iterator(timeout=10)) for _ in range(3)] == [[[0, 1], [2]]] * 3

    @pytest.mark.parametrize(
        ("router", "error", "message"),
        [
            (lambda _: [0], ValueError, "one index for each of the 2 elements, got 1"),
            (lambda _: [0, 2], IndexError, "must return indices 0 to 1, got 2"),
            (lambda _: [0, -1], IndexError, "must return indices 0 to 1, got -1"),
            (lambda _: 3, TypeError, "must return one index for each element, got 3"),
            (several_indices_later, TypeError, "must return one index for each element, got <async_generator"),
        ],
    )
    def test_wrong_answers_fail_the_pipeline(self, router: Any, error: type[Exception], message: str) -> None:
        pipeline = routed([[1, 2]], router, [Pipe(list)], [Pipe(list)], batched=True).add_sink(1).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert isinstance(caught.value.exceptions[0], error)
        assert message in str(caught.value.exceptions[0])
        pipeline.stop()

    def test_nested(self) -> None:
        inner = PathVariants(lambda xs: [int(x > 4) for x in xs], [[Pipe(list)], [Pipe(list)]], batched=True)
        got = self.run([list(range(8)), [7, 6]], by_parities, [inner], [inner, Pipe(lambda xs: [-x for x in xs])])
        assert got == [[0, 2, 4, 6, -1, -3, -5, -7], [6, -7]]


class TestPipelineAsSource:
    def test_one_feeds_another(self) -> None:
        inner = PipelineBuilder[Any, Any]().add_source(range(50)).pipe(lambda x: x + 1, concurrency=2).add_sink(2)
        with inner.build(num_threads=2).auto_stop() as feeding:
            assert sorted(run(chain(feeding, Pipe(lambda x: -x)))) == list(range(-50, 0))

    def test_stopping_the_outer_one_wakes_its_reader_of_the_inner(self) -> None:
        gate = threading.Event()
        inner = PipelineBuilder[Any, Any]().add_source([1, 2]).pipe(lambda x: x == 1 or gate.wait(20)).add_sink(1)
        with inner.build(num_threads=1).auto_stop() as feeding:
            outer = PipelineBuilder[Any, Any]().add_source(feeding).add_sink(1).build(num_threads=1)
            with outer.auto_stop():
                assert outer.get_item(timeout=10) is True
                with pytest.raises(TimeoutError):
                    outer.get_item(timeout=0.05)
            # All threads of the outer pipeline have ended, and the inner one can still be read.
            assert wait_until(lambda: not any(thread.is_alive() for thread in outer._engine.workers.threads), 10)
            gate.set()
            assert feeding.get_item(timeout=10) is True

    def test_a_failure_of_the_inner_one_is_one_of_the_outer_one(self) -> None:
        def failing() -> Iterator[int]:
            yield 1
            raise OSError("gone")

        inner = PipelineBuilder[Any, Any]().add_source(failing()).add_sink(1).build(num_threads=1)
        outer = build_pipeline(chain(inner, Pipe(lambda x: x)), num_threads=1)
        outer.start()
        assert outer.get_item(timeout=10) == 1
        with pytest.raises(PipelineFailure) as caught:
            outer.get_item(timeout=10)
        assert isinstance(caught.value.exceptions[0], PipelineFailure)
        outer.stop()
        inner.stop()


def by_parities(batch: list[int]) -> list[int]:
    return [x % 2 for x in batch]
