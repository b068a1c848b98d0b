"""Rules that no command shows alone: what is made of looks at threads and cores, and how reports draw numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from spdl.observe import PageHead, Sample
from spdl.observe._report import stage_series
from spdl.observe._window.seen import Seen, idle_seconds, look_at
from spdl.observe._window.window_of import window_of
from spdl.pipeline import PipelineBuilder
from spdl.pipeline._report.sample import Doing
from spdl.pipeline._report.threads import ThreadTimes
from spdl.pipeline.defs import Pipe
from tests.observe.export.observed import stage, told
from tests.observe.programs import observed, own_page, running

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and needs files in memory")

# ---- idle cores ----


@linux
def test_cores_are_idle_for_no_longer_than_time_passes() -> None:
    cores, began = len(os.sched_getaffinity(0)), time.monotonic()
    before = idle_seconds(os.getpid())
    time.sleep(0.2)
    after = idle_seconds(os.getpid())
    assert before is not None
    assert after is not None
    # The system counts in ticks, and a core is told of late.
    assert 0 <= after - before <= cores * (time.monotonic() - began + 1)


@linux
def test_only_the_cores_that_the_process_may_use_count() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        pytest.skip("this process may use one core")
    program = f"import os, sys; os.sched_setaffinity(0, [{allowed[0]}]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        one, all_of_them = idle_seconds(process.pid), idle_seconds(os.getpid())
        process.communicate()
    assert one is not None
    assert all_of_them is not None
    assert 0 < one < all_of_them


@linux
def test_of_a_process_that_is_gone_nobody_says() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert idle_seconds(process.pid) is None


# ---- windows ----


def op(number: int) -> int:
    time.sleep(0.05)
    return number


@linux
def test_of_what_ends_at_once_all_counts() -> None:
    last = threading.Event()

    def wait_for_the_last(number: int) -> int:
        if number == 7:
            last.wait(30)
        return op(number)

    pipeline = PipelineBuilder().add_source(range(8)).pipe(wait_for_the_last, name="op").add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        items = iter(pipeline)
        for _ in range(7):
            next(items)
        page = own_page(pipeline)
        ending = threading.Timer(0.1, last.set)
        ending.start()
        window = look_at(page, 30)
        ending.join()
        assert len(list(items)) == 1
    assert 0.3 <= window.seconds < 30


COMPUTES = """
import sys, time
from spdl.pipeline import PipelineBuilder

def compute(number):
    return sum(value * value for value in range(number))

pipeline = PipelineBuilder().add_source([400_000] * {items}).pipe(compute).add_sink().build(num_threads=1)
with pipeline.auto_stop():
    pipeline.get_item()
    sys.stdin.readline()
    list(pipeline)
time.sleep(60)
"""


@linux
@pytest.mark.parametrize("items", [12, 150])
def test_what_threads_computed_counts_although_they_have_ended(items: int) -> None:
    with running(COMPUTES.format(items=items), stdin=subprocess.PIPE) as process:
        pipeline = observed(process, lambda seen: seen.delivered >= 1)
        assert process.stdin is not None
        # It goes on when there is nothing more to be read.
        process.stdin.close()
        window = look_at(pipeline, 50)
        assert pipeline.state() == "ended"
    by_ops = window.after.stages[0].cpu_seconds - window.before.stages[0].cpu_seconds
    assert by_ops > 0
    # What the ops computed is known from some of them, so it is no exact number.
    assert sum(window.cpu().values()) * window.seconds >= 0.5 * by_ops


def seen_of(threads: dict[int, tuple[float, float]], seen_in: dict[int, list[int | None]]) -> Seen:
    """Return a window of a second: the CPU time of threads and how long they had no core, and where looks saw them."""
    looks = [
        cast(
            "Any",
            SimpleNamespace(
                seen_at=0.1 * number,
                threads=[SimpleNamespace(thread=it, part=parts[number]) for it, parts in seen_in.items()],
            ),
        )
        for number in range(11)
    ]
    times = {thread: ThreadTimes(*used, 0) for thread, used in threads.items()}
    return Seen(looks, {thread: ThreadTimes(0.0, 0.0, 0) for thread in threads}, times)


def test_clocks_tell_for_how_long_the_threads_of_a_part_slept() -> None:
    always: list[int | None] = [1] * 11
    window = seen_of({5: (0.4, 0.3), 6: (0.5, 0.4), 7: (0.1, 0.0)}, {5: always, 6: always, 7: [1, *[2] * 10]})
    assert window.asleep_in(1) == pytest.approx(0.2)
    # Thread 7 runs other ops as well, and no thread runs those of part 3.
    assert window.asleep_in(2) is None
    assert window.asleep_in(3) is None
    # A system that does not count it says 0.
    assert seen_of({5: (0.4, 0.0)}, {5: always}).asleep_in(1) is None
    assert seen_of({5: (0.7, 0.4)}, {5: always}).asleep_in(1) == 0


# ---- what is made of a window ----


@pytest.fixture(scope="module")
def seen() -> Iterator[tuple[PageHead, Seen]]:
    """Yield what is seen of a pipeline whose op took 10 ms or more for five items, and waits at the sixth."""
    last, begun, never = threading.Event(), threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number < 5:
            never.wait(0.01)
        else:
            begun.set()
            last.wait(50)
        return number

    pipeline = PipelineBuilder().add_source(range(6)).pipe(work, name="work").add_sink(8).build(num_threads=1)
    with pipeline.auto_stop():
        for _ in range(5):
            pipeline.get_item()
        assert begun.wait(50)
        page = own_page(pipeline)
        yield page.head, look_at(page, 0.2)
        last.set()


@linux
def test_clocks_say_for_how_long_threads_sleep_and_looks_for_what(seen: tuple[PageHead, Seen]) -> None:
    head, window = seen
    (thread,) = (it.thread for it in window.after.threads if it.part is not None and it.part >= 1)

    def share(doing: list[Doing], cpu: float, no_core: float) -> tuple[float, float, float]:
        looks = [replace(window.after, seen_at=0.1 * number, doing={thread: it}) for number, it in enumerate(doing)]
        seconds = looks[-1].seen_at - looks[0].seen_at
        times = {thread: ThreadTimes(cpu * seconds, no_core * seconds, 0)}
        given = Seen(looks, {thread: ThreadTimes(0.0, 0.0, 0)}, times)
        stage = window_of(head, given).stages[0]
        return stage.runs, stage.waits_for_thread, stage.waits

    # It was hardly seen to sleep, as it had no core when it woke.
    looks = 17 * [Doing.RUNS] + 2 * [Doing.WAITS_FOR_THREAD] + [Doing.WAITS]
    assert share(looks, 0.2, 0.5) == pytest.approx((0.7, 0.2, 0.1))
    # What it slept for is not known, or for how long is not.
    assert share(20 * [Doing.RUNS], 0.2, 0.5) == (1.0, 0.0, 0.0)
    assert share(looks, 0.2, 0.0) == pytest.approx((0.85, 0.1, 0.05))


@linux
def test_idle_cores_are_those_of_the_window(seen: tuple[PageHead, Seen]) -> None:
    head, window = seen
    assert 0 <= window.cores_idle < 10_000
    assert window_of(head, replace(window, cores_idle=1.5)).cores_idle == 1.5


# ---- reports ----


def sample(at: float, elapsed: float, emitted: int, **fields: float) -> Sample:
    return Sample(at, told(stage("decode", elapsed=elapsed, num_emitted=emitted, **fields), elapsed=elapsed).now)


def test_rates_and_shares_are_those_between_two_samples() -> None:
    samples = [
        sample(0.0, 0.0, 0, concurrency=4, queue_size=1),
        sample(2.5, 2.0, 20, concurrency=4, busy_seconds=4.0, starved_seconds=1.0, queue_size=2),
        sample(3.5, 3.0, 50, concurrency=4, busy_seconds=8.0, starved_seconds=1.0, blocked_seconds=0.25, queue_size=0),
    ]
    series = stage_series(samples, 0)
    assert series.items == [(2.5, 10.0), (3.5, 30.0)]
    assert series.busy == [(2.5, 0.5), (3.5, 1.0)]
    assert series.starved == [(2.5, 0.5), (3.5, 0.0)]
    assert series.blocked == [(2.5, 0.0), (3.5, 0.25)]
    assert series.held == [(2.5, 0.0), (3.5, 0.0)]
    assert series.queue == [(0.0, 1.0), (2.5, 2.0), (3.5, 0.0)]


def test_an_op_that_took_longer_than_the_interval_is_no_more_than_all_of_it() -> None:
    series = stage_series([sample(0.0, 1.0, 0), sample(1.0, 2.0, 1, busy_seconds=1.9)], 0)
    assert series.busy == [(1.0, 1.0)]


def test_nothing_is_known_where_the_next_epoch_of_a_loader_begins() -> None:
    samples = [sample(0.0, 1.0, 10), sample(1.0, 2.0, 20), sample(2.0, 0.5, 5), sample(3.0, 1.5, 25)]
    assert stage_series(samples, 0).items == [(1.0, 10.0), (2.0, None), (3.0, 20.0)]


def test_before_the_start_and_after_the_end_there_are_no_rates() -> None:
    samples = [sample(0.0, 0.0, 0), sample(1.0, 0.0, 0), sample(2.0, 1.0, 5), sample(3.0, 1.0, 5)]
    assert stage_series(samples, 0).items == [(2.0, 5.0)]


def test_the_edges_are_those_of_the_pipeline() -> None:
    first = PipelineBuilder().add_source(range(3)).pipe(abs, name="first")
    second = PipelineBuilder().add_source(range(4))
    pipeline = (
        PipelineBuilder()
        .merge([first, second])
        .path_variants(lambda item: item % 2, [[Pipe(abs, name="even")], [Pipe(abs, name="odd")]])
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        list(pipeline)
    statistics = pipeline.statistics()
    names = [stage.name for stage in statistics.stages]
    assert sorted((names[giver], names[taker]) for giver, taker in statistics.edges) == [
        ("even", "path_variants_merge"),
        ("first", "merge"),
        ("merge", "path_variants"),
        ("odd", "path_variants_merge"),
        ("path_variants", "even"),
        ("path_variants", "odd"),
        ("path_variants_merge", "sink"),
        ("src[0]", "first"),
        ("src[1]", "merge"),
    ]
