"""Pipelines that tune the stages of their regions. How far a limit goes depends on the machine: no test says it."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, wait_until

from spdl.pipeline.defs import MAIN_PROCESS, ExecutorConfig, ProcessPoolExecutorConfig, ThreadPoolExecutorConfig

if TYPE_CHECKING:
    from spdl.pipeline import Pipeline, PipelineBuilder

pytestmark = pytest.mark.timeout(120)

_lock = threading.Lock()
_at_once = 0


def wait(_: int) -> tuple[int, int]:
    """Wait, and return the worker's process and how many of it run there."""
    global _at_once  # noqa: PLW0603 - of all ops of this process.
    with _lock:
        _at_once += 1
        at_once = _at_once
    time.sleep(0.05)
    with _lock:
        _at_once -= 1
    return os.getpid(), at_once


def same(item: Any) -> Any:
    return item


def region(workers: ExecutorConfig, items: Any = None, **options: Any) -> PipelineBuilder[Any, Any]:
    builder = source(itertools.count() if items is None else items).to(workers)
    return builder.pipe(wait, name="wait", **options)


def slots(pipeline: Pipeline[Any], name: str = "wait") -> int:
    return next(stage.concurrency for stage in pipeline.statistics().stages if stage.name == name)


def in_use(pipeline: Pipeline[Any]) -> int:
    """Return how many of the slots are in use."""
    return next(stage.running for stage in pipeline.statistics().stages if stage.name == "wait")


def count_in(pipeline: Pipeline[Any], seconds: float) -> int:
    """Return how many items come within so many seconds."""
    end = time.monotonic() + seconds
    return sum(1 for _ in itertools.takewhile(lambda _: time.monotonic() < end, pipeline))


def read_until(pipeline: Pipeline[Any], condition: Any) -> Any:
    """Read until an item, or what is known of the pipeline, is as it should be; return the item."""
    for end in [time.monotonic() + 60]:
        for item in pipeline:
            if condition(item):
                return item
            assert time.monotonic() < end, pipeline.tuned()
    raise AssertionError("The pipeline has ended.")


def test_processes_whose_op_waits_get_more_and_what_was_given_stays() -> None:
    builder = region(ProcessPoolExecutorConfig(2)).pipe(same, name="given", concurrency=2).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(autotune=True)
    with pipeline.auto_stop():
        read_until(pipeline, lambda item: item[1] >= 3)
        assert slots(pipeline, "given") == 4
    log = pipeline.tuning_log()
    # On a busy machine, others may come before.
    first = next(step for step in log if step.concurrency["wait"] > 1)
    # All numbers are those of one worker, as they are declared.
    assert f"concurrency of 'wait' 1 -> {first.concurrency['wait']} in each of 2 workers" in first.reason
    assert {step.concurrency["given"] for step in log} == {2}
    tuned = pipeline.tuned()
    assert 2 * tuned.concurrency["wait"] == slots(pipeline)
    assert f"name='wait', concurrency={tuned.concurrency['wait']})" in str(tuned)
    # The region's threads are none of the pipeline's.
    assert tuned.num_threads == 1


def test_another_process_goes_on_with_what_the_dead_one_had() -> None:
    over = threading.Event()
    builder = region(
        ProcessPoolExecutorConfig(1, on_death="rerun"),
        itertools.takewhile(lambda _: not over.is_set(), itertools.count()),
    ).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(autotune=True)
    with pipeline.auto_stop():
        dead, _ = read_until(pipeline, lambda item: item[1] >= 3)
        os.kill(dead, signal.SIGKILL)
        alive, _ = read_until(pipeline, lambda item: item[0] != dead and item[1] >= 3)
        over.set()
        assert {process for process, _ in pipeline} <= {alive}
    # What the dead one worked on does not count for ever.
    assert in_use(pipeline) == 0


def test_a_concurrency_that_was_given_is_the_limit() -> None:
    builder = region(ThreadPoolExecutorConfig(2), concurrency=1).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(autotune=True)
    with pipeline.auto_stop():
        read_until(pipeline, lambda _: pipeline.tuned().settled)
        assert slots(pipeline) == 2
    assert {step.concurrency["wait"] for step in pipeline.tuning_log()} <= {1}


def test_what_is_set_meanwhile_stays() -> None:
    pipeline = region(ThreadPoolExecutorConfig(2)).to(MAIN_PROCESS).add_sink().build(autotune=True)
    with pipeline.auto_stop():
        read_until(pipeline, lambda _: slots(pipeline) > 2)
        pipeline.set_concurrency("wait", 5)
        # Without that, it would be raised within half a second.
        count_in(pipeline, 1)
        # As many in each worker.
        assert slots(pipeline) == 6
    assert pipeline.tuned().concurrency == {"wait": 3}


def test_one_worker_may_come_to_lose_the_order() -> None:
    for options, in_order in (({}, False), ({"concurrency": 1}, True), ({"output_order": "input"}, True)):
        builder = region(ThreadPoolExecutorConfig(1), range(3), **options).to(MAIN_PROCESS)
        assert builder.add_sink().build(autotune=True).state_dict()["in_order"] is in_order


def test_what_runs_in_workers_is_seen_before_it_ends() -> None:
    gate = threading.Event()

    def op(_: int) -> bool:
        return gate.wait(60)

    builder = source(range(9)).to(ThreadPoolExecutorConfig(2)).pipe(op, name="wait").to(MAIN_PROCESS)
    pipeline = builder.add_sink(9).build(autotune=True)
    with pipeline.auto_stop():
        assert wait_until(lambda: in_use(pipeline) == 2, 60)
        gate.set()
        assert list(pipeline) == [True] * 9
    assert in_use(pipeline) == 0


def test_a_change_is_judged_when_the_workers_know_of_it() -> None:
    gate = threading.Event()

    def op(_: int) -> bool:
        return gate.wait(60)

    def waits_for_workers() -> bool:
        return "workers of a region have yet to begin" in pipeline.tuned().reason

    # It is not tuned where nothing more comes of the source.
    builder = source(itertools.count()).pipe(same, name="before").to(ThreadPoolExecutorConfig(1)).pipe(op, name="wait")
    pipeline = builder.to(MAIN_PROCESS).add_sink(9).build(autotune=True)
    with pipeline.auto_stop(), ThreadPoolExecutor(1) as executor:
        # The consumer waits, so this is no pause.
        read = executor.submit(pipeline.get_item)
        try:
            assert wait_until(lambda: in_use(pipeline) == 1, 60)
            assert wait_until(lambda: not waits_for_workers(), 60)
            pipeline.set_concurrency("wait", 2)
            # The worker runs the one item, and looks for nothing else until that is done.
            assert wait_until(waits_for_workers, 60)
        finally:
            gate.set()
        assert read.result(60)
        read_until(pipeline, lambda _: not waits_for_workers())


def test_workers_that_have_yet_to_begin_are_waited_for() -> None:
    gate = threading.Event()
    workers = ThreadPoolExecutorConfig(2, initializer=gate.wait, initargs=(60,))
    builder = source(itertools.count()).pipe(same, name="before").to(workers).pipe(same).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(autotune=True)
    with pipeline.auto_stop(), ThreadPoolExecutor(1) as executor:
        # While nobody reads, only the first look counts, which may come before the first item is done.
        read = executor.submit(pipeline.get_item)
        try:
            # What was done before the region would be measured, and found to be all that there is.
            assert wait_until(lambda: "workers of a region have yet to begin" in pipeline.tuned().reason, 60)
        finally:
            gate.set()
        read.result(60)
        read_until(pipeline, lambda _: "yet to begin" not in pipeline.tuned().reason)
