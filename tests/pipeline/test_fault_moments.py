"""Test the times and ways for the consumer to leave, with every kind of stage.

In each case, leaving takes no longer than the ops that run, and no thread and no item is left.
"""

from __future__ import annotations

import gc
import threading
import time
from functools import partial
from typing import Any

import pytest
from tests.pipeline.kinds import KINDS, Item, Items, Kind
from tests.pipeline.support import wait_until

from spdl.pipeline import Pipeline, PipelineFailure

COUNT = 200
DEADLINE = 10

# A stage that flushes returns nothing before the end of its input.
STEADY = [kind for kind in KINDS if kind.name not in ("processes", "flush")]


def slow(x: Item) -> Item:
    time.sleep(0.001)
    return x


def read_one(pipeline: Pipeline[Any]) -> None:
    pipeline.start()
    # The stage works on two items at once.
    assert pipeline.get_item(timeout=DEADLINE).number < 3
    pipeline.stop(timeout=DEADLINE)


def leave_at_once(pipeline: Pipeline[Any]) -> None:
    pipeline.start()
    pipeline.stop(timeout=DEADLINE)


def leave_by_break(pipeline: Pipeline[Any]) -> None:
    with pipeline.auto_stop(timeout=DEADLINE):
        for index, _ in enumerate(pipeline.get_iterator(timeout=DEADLINE)):
            if index == 10:
                break


def leave_by_an_exception(pipeline: Pipeline[Any]) -> None:
    def step() -> None:
        with pipeline.auto_stop(timeout=DEADLINE):
            for index, _ in enumerate(pipeline.get_iterator(timeout=DEADLINE)):
                if index == 10:
                    raise KeyError("of the training step")

    with pytest.raises(KeyError):
        step()


def come_back_after_a_break(pipeline: Pipeline[Any]) -> None:
    with pipeline.auto_stop(timeout=DEADLINE):
        got: list[int] = []
        for index, item in enumerate(pipeline.get_iterator(timeout=DEADLINE)):
            got.append(item.number)
            if index == 10:
                break
        got += [item.number for item in pipeline.get_iterator(timeout=DEADLINE)]
    assert sorted(got) == list(range(COUNT))


def stop_from_another_thread(pipeline: Pipeline[Any]) -> None:
    pipeline.start()
    stopper = threading.Timer(0.02, pipeline.stop)
    stopper.start()
    got = [item.number for item in pipeline.get_iterator(timeout=DEADLINE)]
    assert len(got) == len(set(got))
    stopper.join()


def stop_from_several_threads(pipeline: Pipeline[Any]) -> None:
    pipeline.start()
    stoppers = [threading.Thread(target=pipeline.stop) for _ in range(4)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(DEADLINE)
        assert not stopper.is_alive()


def stop_while_the_sink_is_full(pipeline: Pipeline[Any]) -> None:
    pipeline.start()
    assert wait_until(lambda: pipeline.statistics().stages[-1].queue_size >= 2)
    time.sleep(0.01)
    pipeline.stop(timeout=DEADLINE)
    # Finished items can still be read.
    assert pipeline.get_item(timeout=0).number >= 0


def read_from_several_threads(pipeline: Pipeline[Any]) -> None:
    got: list[int] = []

    def read() -> None:
        got.extend(item.number for item in pipeline.get_iterator(timeout=DEADLINE))

    with pipeline.auto_stop(timeout=DEADLINE):
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        if "continuous" not in repr(pipeline):
            for reader in readers:
                reader.join(DEADLINE)
        else:
            # One of the readers reads the end of the epoch.
            assert wait_until(lambda: len(got) >= COUNT)
    for reader in readers:
        reader.join(DEADLINE)
    if "continuous" in repr(pipeline):
        # The other readers go on with the next epoch.
        got = sorted(set(got))
    assert sorted(got) == list(range(COUNT))


MOMENTS = [
    read_one,
    leave_at_once,
    leave_by_break,
    leave_by_an_exception,
    come_back_after_a_break,
    stop_from_another_thread,
    stop_from_several_threads,
    stop_while_the_sink_is_full,
    read_from_several_threads,
]


def is_over(pipeline: Pipeline[Any]) -> bool:
    return not any(thread.is_alive() for thread in pipeline._engine.all_threads())


def is_collected_and_over(engine: Any) -> bool:
    gc.collect()
    return not any(thread.is_alive() for thread in engine.all_threads())


@pytest.mark.parametrize("kind", STEADY, ids=str)
def test_leaving(kind: Kind) -> None:
    made = []
    for leave in MOMENTS:
        items = Items(COUNT)
        made.append(items)
        with kind.pipeline(slow, items) as pipeline:
            try:
                leave(pipeline)
                # A stop does not wait for long for a source that is asked for an item at that moment.
                assert is_over(pipeline) or (not kind.waits and wait_until(partial(is_over, pipeline)))
            except BaseException as failure:
                failure.add_note(f"The consumer's way: {leave.__name__}.")
                raise
            del pipeline
    assert wait_until(lambda: not any(items.alive() for items in made))


@pytest.mark.parametrize("held", ["nothing", "an iterator in a cycle"])
@pytest.mark.parametrize("kind", STEADY, ids=str)
def test_forgetting_it(kind: Kind, held: str) -> None:
    items = Items(COUNT)
    with kind.pipeline(slow, items) as pipeline:
        pipeline.start()
        iterator = pipeline.get_iterator(timeout=DEADLINE)
        assert next(iterator).number < 3
        engine = pipeline._engine
        if held != "nothing":
            cycle: list[Any] = [iterator]
            cycle.append(cycle)
            del cycle
        del iterator, pipeline
        assert wait_until(partial(is_collected_and_over, engine))
    del engine
    assert wait_until(lambda: not items.alive())


@pytest.mark.parametrize("kind", STEADY, ids=str)
def test_a_failure_that_nobody_reads(kind: Kind) -> None:
    def interrupt(x: Item) -> Item:
        if x.number == 1:
            raise SystemExit
        return x

    # A failure is reported after all earlier items, so the sink needs room for these.
    with kind.pipeline(interrupt, Items(COUNT), sink=COUNT) as pipeline:
        pipeline.start()
        assert wait_until(lambda: "failed" in repr(pipeline).splitlines()[0])
        with pytest.raises(PipelineFailure):
            pipeline.stop(timeout=DEADLINE)
        assert is_over(pipeline) or (not kind.waits and wait_until(partial(is_over, pipeline)))
        pipeline.stop(timeout=DEADLINE)
