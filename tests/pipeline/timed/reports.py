"""The lines about stages and queues, for ops, sources and consumers that take known times."""

from __future__ import annotations

import functools

from tests.pipeline.support import source
from tests.pipeline.timed.programs import Hears, binned, exactly, nap, program, run, slowly

from spdl.pipeline import StatsQueue, TaskStatsHook


@program
def a_slow_stage() -> None:
    """The reference logs, for 60 items of 10 ms: put 4.5, get 0.0 ms, 99 %; downstream put 0.0, get 5.2 ms, 0 %."""
    with Hears() as heard:
        run(source(range(60)).pipe(nap(0.01), concurrency=2, name="slow").pipe(abs, name="quick"))
    slow, upstream, downstream = heard.lines.task("slow[2]"), heard.lines.queue("src"), heard.lines.queue("slow[2]")
    assert (slow.num_tasks, slow.num_failures) == (60, 0)
    assert slow.ave_time == exactly(0.01)
    assert slow.p99_time == binned(0.01)
    assert upstream.num_items == downstream.num_items == 60
    # The first two of sixty find a free slot.
    assert upstream.ave_put_time == exactly(0.29 / 60)
    assert upstream.ave_get_time == exactly(0)
    assert upstream.occupancy_rate > 0.9
    assert upstream.elapsed == exactly(0.3)
    assert downstream.ave_put_time == exactly(0)
    # Two results come at once every 10 ms.
    assert downstream.ave_get_time == exactly(0.005)
    assert downstream.p90_get_time == binned(0.01)
    assert downstream.occupancy_rate < 0.05


@program
def a_slow_stage_behind_a_quick_one() -> None:
    """The reference logs, for 1 and 5 ms: put 4.0, get 0.0 ms, 98 %."""
    with Hears() as heard:
        run(source(range(60)).pipe(nap(0.001), name="quick").pipe(nap(0.005), name="slow"))
    between, slow = heard.lines.queue("quick"), heard.lines.task("slow")
    assert slow.ave_time == exactly(0.005)
    # An item waits as long as the slow op takes, but for what the quick one takes meanwhile.
    assert 0.0035 <= between.ave_put_time <= 0.004
    assert between.p90_put_time == binned(0.004)
    assert between.ave_get_time == exactly(0)
    assert between.occupancy_rate > 0.95


@program
def a_slow_source() -> None:
    """The reference logs, for 5 and 1 ms: put 0.0, get 4.1 ms, 2 %."""
    with Hears() as heard:
        run(source(slowly(60, 0.005)).pipe(nap(0.001), name="op"))
    before = heard.lines.queue("src")
    assert before.num_items == 60
    assert before.ave_put_time == exactly(0)
    assert before.ave_get_time == exactly(0.004)
    assert before.p90_get_time == binned(0.004)
    assert before.occupancy_rate < 0.02


def _slow_consumer(concurrency: int) -> None:
    with Hears() as heard:
        run(source(range(60)).pipe(nap(0.001), name="op", concurrency=concurrency), consume=0.01)
    sink = heard.lines.queue("sink")
    assert sink.num_items == 60
    # The last items find room, as nobody makes more.
    assert 0.008 * concurrency <= sink.ave_put_time <= 0.01 * concurrency
    assert sink.p90_put_time == binned(0.0095 * concurrency)
    assert sink.ave_get_time == exactly(0)
    assert sink.occupancy_rate > 0.98


@program
def a_slow_consumer() -> None:
    """The reference logs, for 10 ms: put 10 ms for each slot that waits, get 0.0 ms, 98 %."""
    _slow_consumer(1)


@program
def a_slow_consumer_of_four_slots() -> None:
    """The reference logs, for 10 ms: put 10 ms for each slot that waits, get 0.0 ms, 98 %."""
    _slow_consumer(4)


@program
def a_quick_consumer() -> None:
    with Hears() as heard:
        run(source(range(60)).pipe(nap(0.005), name="op"))
    sink = heard.lines.queue("sink")
    assert sink.ave_put_time == exactly(0)
    assert sink.p90_put_time == 0
    assert sink.ave_get_time == exactly(0.005)
    assert sink.p90_get_time == binned(0.005)
    assert sink.occupancy_rate < 0.02


@program
def each_has_its_own_interval() -> None:
    with Hears() as heard:
        run(
            source(range(60)).pipe(nap(0.005), name="op"),
            queue_class=functools.partial(StatsQueue, interval=0.05),
            task_hook_factory=lambda info: [TaskStatsHook(info, 0.02)],
            report_stats_interval=0.001,
        )
    # In 300 ms, and one more for each at the end. None comes at the interval of the build.
    assert len(heard.lines.tasks) in (15, 16)
    assert 3 * 5 <= len(heard.lines.queues) + 1 <= 3 * 7


@program
def they_add_up_to_the_line_at_the_end() -> None:
    with Hears() as heard:
        run(source(range(100)).pipe(nap(0.003), name="op"), report_stats_interval=0.05)
    lines = heard.lines
    *laps, total = [stats for name, stats in lines.tasks if name == "1:op"]
    assert total.num_tasks == 100
    assert [lap.num_tasks in (16, 17) for lap in laps] == [True] * 6
    assert sum(lap.num_tasks for lap in laps) == 99
    assert all(lap.ave_time == exactly(0.003) for lap in [*laps, total])
    for name in ("0:src", "2:sink"):
        *parts, whole = [stats for each, stats in lines.queues if each == name]
        assert whole.num_items == 100
        assert sum(part.num_items for part in parts) in (98, 99, 100)
        assert [part.elapsed for part in parts] == [exactly(0.05)] * 6
