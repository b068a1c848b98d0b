"""Rules of tracing that no trace of the user shows.

Recorders that are attached to pipelines that run, and taken off again at any moment: nothing is lost, doubled or out of
order. What a recorder keeps, and which source items an item came from.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline._report.recorder import Lanes, Recorder, Slice
from spdl.pipeline._stages.tracing import _TracedAsync, attach_all, detach_all
from spdl.pipeline._state.lineage import Lineage
from spdl.pipeline._state.origins import LISTED, Gathering, Group, origins
from spdl.pipeline.defs import MAIN_PROCESS, Aggregator, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

N = 1500
Builder = PipelineBuilder[Any, Any]


@contextmanager
def traced_now_and_then() -> Iterator[list[Recorder]]:
    """Attach one recorder after the other, and take each off, as often as that can be done in the block."""
    recorders: list[Recorder] = []
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.0003):
            recorder = Recorder(5000)
            attach_all(recorder)
            over.wait(0.0005)
            recorder.close()
            detach_all(recorder)
            recorders.append(recorder)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield recorders
    finally:
        over.set()
        thread.join()


def double(item: int) -> int:
    return 2 * item


async def fetch(item: int) -> int:
    return item


def twice(item: int) -> Iterator[int]:
    yield item
    yield item


async def twice_later(item: int) -> AsyncIterator[int]:
    yield item
    yield item


class Pairs(Aggregator[int, tuple[int, ...]]):
    def __init__(self) -> None:
        self.kept: list[int] = []

    def accumulate(self, item: int) -> tuple[int, ...] | None:
        self.kept.append(item)
        return self.flush() if len(self.kept) == 2 else None

    def flush(self) -> tuple[int, ...] | None:
        kept, self.kept = self.kept, []
        return tuple(kept) or None


async def items_later() -> AsyncIterator[int]:
    for item in range(N):
        yield item


def one_after_the_other() -> Builder:
    return PipelineBuilder().add_source(range(N)).pipe(double).pipe(double)


def in_order() -> Builder:
    return one_after_the_other().pipe(double, concurrency=3, output_order="input")


def in_a_process() -> Builder:
    builder = PipelineBuilder().add_source(range(N)).to(ProcessPoolExecutorConfig(1)).pipe(math.sqrt)
    return builder.to(MAIN_PROCESS)


def with_retries() -> Builder:
    failed: set[int] = set()

    def op(item: int) -> int:
        if item % 50 == 0 and item not in failed:
            failed.add(item)
            raise ValueError
        return item

    return PipelineBuilder().add_source(range(N)).pipe(op, retries=1, retry_delay=0.0, timeout=50)


SHAPES: dict[str, tuple[Callable[[], Builder], list[Any]]] = {
    "threads": (one_after_the_other, [4 * item for item in range(N)]),
    "order": (in_order, [8 * item for item in range(N)]),
    "retries": (with_retries, list(range(N))),
    "generators": (
        lambda: PipelineBuilder().add_source(range(N)).pipe(twice).pipe(twice_later).pipe(double),
        [2 * item for item in range(N) for _ in range(4)],
    ),
    "coroutines": (
        lambda: PipelineBuilder().add_source(items_later()).pipe(fetch, concurrency=3, output_order="input"),
        list(range(N)),
    ),
    "batches": (
        lambda: PipelineBuilder().add_source(range(N)).aggregate(3).disaggregate().aggregate(Pairs()),
        [(item, item + 1) for item in range(0, N, 2)],
    ),
    "a process": (
        in_a_process,
        list(map(math.sqrt, range(N))),
    ),
    "no stage": (lambda: PipelineBuilder().add_source(range(N), dedicated_thread=True), list(range(N))),
}


def state(pipeline: Pipeline[Any]) -> list[tuple[Any, ...]]:
    engine = pipeline._engine
    parts: list[Any] = [*engine.sources, *engine.nodes, engine.sink]
    return [(type(part), getattr(part, "op", None), getattr(part, "plain", None)) for part in parts]


@pytest.mark.parametrize("shape", SHAPES)
def test_attach_and_detach_change_nothing(shape: str) -> None:
    make, expected = SHAPES[shape]
    pipeline = make().add_sink(3).build(num_threads=2)
    got = []
    seen = False
    with pipeline.auto_stop(), traced_now_and_then() as recorders:
        for item in pipeline:
            got.append(item)
            # The recorders may come late on a busy machine.
            if not seen:
                seen = any(recorder.slices() for recorder in recorders)
                time.sleep(0.005)
    assert got == expected
    assert any(recorder.slices() for recorder in recorders)


@pytest.mark.parametrize("shape", SHAPES)
def test_detach_leaves_a_pipeline_as_it_was(shape: str) -> None:
    make, expected = SHAPES[shape]
    pipeline = make().add_sink(3).build(num_threads=2)
    with pipeline.auto_stop():
        iterator = iter(pipeline)
        begun = [next(iterator) for _ in range(10)]
        before = state(pipeline)
        recorder = Recorder(5000)
        attach_all(recorder)
        traced = state(pipeline)
        begun += [next(iterator) for _ in range(10)]
        recorder.close()
        detach_all(recorder)
        assert state(pipeline) == before
        assert begun + list(iterator) == expected
    assert traced != before
    assert {piece.name for piece in recorder.slices()} >= {"step"}


def test_attach_while_calls_run_in_threads_of_the_user() -> None:
    with ThreadPoolExecutor(2) as executor:
        builder = one_after_the_other().pipe(double, executor=executor, concurrency=2, output_order="input")
        pipeline = builder.add_sink(3).build(num_threads=2)
        with pipeline.auto_stop(), traced_now_and_then():
            assert list(pipeline) == [8 * item for item in range(N)]


def test_attach_beside_several_consumers() -> None:
    pipeline = one_after_the_other().add_sink(3).build(num_threads=2)
    found: list[list[int]] = [[], [], []]

    def read(items: list[int]) -> None:
        while True:
            try:
                items.append(pipeline.get_item(timeout=50))
            except EOFError:
                return

    with pipeline.auto_stop(), traced_now_and_then():
        # One of them iterates, and has at hand what it takes from.
        threads = [threading.Thread(target=read, args=(items,)) for items in found[:2]]
        for thread in threads:
            thread.start()
        found[2].extend(pipeline)
        for thread in threads:
            thread.join()
    assert all(items == sorted(items) for items in found)
    assert sorted(chain.from_iterable(found)) == [4 * item for item in range(N)]


def test_attach_leaves_the_ends_of_epochs_where_they_were() -> None:
    pipeline = PipelineBuilder().add_source(range(100), continuous=True).pipe(double).add_sink(3).build(num_threads=1)
    with pipeline.auto_stop(), traced_now_and_then():
        assert [list(pipeline) for _ in range(10)] == [[2 * item for item in range(100)]] * 10


def test_detach_right_before_a_coroutine_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_one = _TracedAsync._serve_one
    recorder = Recorder(5000)

    async def serve_late(self: _TracedAsync, hand: list[Any]) -> None:
        if not recorder.closed:
            recorder.close()
            detach_all(recorder)
        await serve_one(self, hand)

    monkeypatch.setattr(_TracedAsync, "_serve_one", serve_late)
    make, expected = SHAPES["coroutines"]
    pipeline = make().add_sink(3).build(num_threads=2)
    attach_all(recorder)
    with pipeline.auto_stop():
        assert list(pipeline) == expected
    assert recorder.closed


# ---- what a recorder keeps ----


def piece(number: int) -> Slice:
    return Slice(1, "x", number, number + 1, 0, ())


def test_recorder_has_a_track_for_each_thread() -> None:
    recorder = Recorder(10)
    numbers: list[int] = []

    def look() -> None:
        track = recorder.thread()
        assert recorder.thread() is track
        assert track.name == threading.current_thread().name
        assert track.thread_id == threading.get_native_id()
        numbers.append(track.number)

    # One after the other: the system may give a number again, and a track is not shared all the same.
    for _ in range(4):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert len(set(numbers)) == 4
    assert [track.number for track in recorder.tracks()] == numbers


def test_recorder_keeps_the_latest_until_it_is_closed() -> None:
    recorder = Recorder(3)
    for number in range(5):
        recorder.add(piece(number))
        recorder.count("queue", number, number)
    recorder.close()
    recorder.add(piece(5))
    recorder.count("queue", 5.0, 5)
    assert [each.begin for each in recorder.slices()] == [2, 3, 4]
    assert [each.items for each in recorder.counts()] == [2, 3, 4]


def test_recorder_may_be_read_while_others_add() -> None:
    recorder = Recorder(500)
    stopped = threading.Event()

    def add() -> None:
        number = 0
        while not stopped.is_set():
            recorder.add(piece(number))
            number += 1

    thread = threading.Thread(target=add)
    thread.start()
    try:
        for _ in range(300):
            begins = [each.begin for each in recorder.slices()]
            # None is missing in between.
            assert all(after == before + 1 for before, after in pairwise(begins))
    finally:
        stopped.set()
        thread.join()


@given(st.lists(st.booleans(), max_size=40))
def test_lanes_are_as_many_as_overlap(steps: list[bool]) -> None:
    recorder = Recorder(10)
    lanes = Lanes(recorder, "stage")
    taken: list[int] = []
    most = 0
    for takes in steps:
        if takes:
            lane, track = lanes.take()
            assert lane not in taken
            assert track.name == f"stage #{lane}"
            # The first one that is free.
            assert set(range(lane)) <= set(taken)
            taken.append(lane)
        elif taken:
            lanes.give_back(taken.pop(0))
        most = max(most, len(taken))
    assert len(recorder.tracks()) == most


# ---- which source items an item came from ----


def test_origins_of_a_source_item() -> None:
    assert origins(7) == (7,)


def test_origins_of_a_batch_are_its_items_in_order() -> None:
    lineage = Lineage()
    assert origins(lineage.gather([3, 1, 2])) == (3, 1, 2)
    assert origins(lineage.gather([])) == ()


def test_origins_of_a_result_of_a_generator() -> None:
    lineage = Lineage()
    results = lineage.expand(lineage.admit(0))
    first, second = results.next_result(), results.next_result()
    assert first is not None
    assert second is not None
    assert origins(results) == origins(first) == origins(second) == (0,)
    assert origins(lineage.gather([first, 5, second])) == (0, 5)


def test_origins_are_a_thousand_at_most() -> None:
    lineage = Lineage()
    gathering = Gathering()
    for _ in range(3 * LISTED):
        gathering.parents.append(lineage.admit(0))
    found = origins(gathering)
    assert found == tuple(range(LISTED))


@given(st.recursive(st.integers(0, 20), lambda inner: st.lists(inner, max_size=4), max_leaves=30))
def test_origins_of_batches_of_batches(nested: object) -> None:
    def made(part: object) -> int | Group:
        return part if isinstance(part, int) else Group([made(each) for each in part], 1)  # type: ignore[attr-defined]

    def leaves(part: object) -> list[int]:
        return [part] if isinstance(part, int) else [leaf for each in part for leaf in leaves(each)]  # type: ignore[attr-defined]

    assert origins(made(nested)) == tuple(dict.fromkeys(leaves(nested)))
