"""Concurrencies of a region's stages that change while it runs, and what follows from them in its workers."""

from __future__ import annotations

import threading
from typing import Any

from tests.pipeline.support import source

from spdl.pipeline.defs import MAIN_PROCESS, ThreadPoolExecutorConfig


def same(x: Any) -> Any:
    return x


def test_each_stage_of_a_worker_has_a_thread_for_each_slot() -> None:
    all_at_once = threading.Barrier(8)

    def first(x: int) -> int:
        if x >= 4:
            all_at_once.wait(30)
        return x

    def second(x: int) -> int:
        if x < 4:
            all_at_once.wait(30)
        return x

    builder = source(range(8)).to(ThreadPoolExecutorConfig(1)).pipe(first).pipe(second).to(MAIN_PROCESS)
    pipeline = builder.add_sink(8).build(num_threads=1)
    for stage in ("first", "second"):
        pipeline.set_concurrency(stage, 4)
    with pipeline.auto_stop():
        assert sorted(pipeline.get_iterator(timeout=60)) == list(range(8))


def test_a_worker_whose_stage_works_on_several_items_keeps_no_order() -> None:
    pipeline = source(range(5)).to(ThreadPoolExecutorConfig(1)).pipe(same).to(MAIN_PROCESS).add_sink().build()
    assert pipeline.state_dict()["in_order"] is True
    pipeline.set_concurrency("same", 2)
    assert pipeline.state_dict()["in_order"] is False


def test_what_overtakes_waits_at_the_end_of_a_region_that_keeps_the_order() -> None:
    late = threading.Event()

    def op(x: int) -> int:
        if x == 0:
            assert late.wait(30)
        elif x == 9:
            late.set()
        return x

    builder = source(range(40)).to(ThreadPoolExecutorConfig(2)).pipe(same, output_order="input").pipe(op)
    pipeline = builder.to(MAIN_PROCESS).add_sink().build()
    pipeline.set_concurrency("op", 8)
    assert pipeline.state_dict()["in_order"] is True
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=60)) == list(range(40))
