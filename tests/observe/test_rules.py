"""Rules that no command shows alone: what is made of looks at threads and cores, and how reports draw numbers."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.observe import PageHead, Sample
from spdl.observe._report.chart import Line, chart, nice_ceiling, number
from spdl.observe._report.graph import graph, layers
from spdl.observe._report.series import stage_series
from spdl.observe._why.measure import measure
from spdl.observe._window.idle_cores import idle_seconds
from spdl.observe._window.thread_times import Doing, ThreadTimes
from spdl.observe._window.window import Look, Window, watch
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Pipe
from tests.observe.export.observed import stage, told
from tests.observe.programs import observed, own_page, running
from tests.observe.report.svg import parse_svg

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
        window = watch(page, 30)
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
        window = watch(pipeline, 50)
        assert pipeline.state() == "ended"
    by_ops = window.after.seen.stages[0].cpu_seconds - window.before.seen.stages[0].cpu_seconds
    assert by_ops > 0
    # What the ops computed is known from some of them, so it is no exact number.
    assert sum(window.cpu().values()) * window.seconds >= 0.5 * by_ops


def window_of(threads: dict[int, tuple[float, float]], seen_in: dict[int, list[int | None]]) -> Window:
    """Return a window of a second: the CPU time of threads and how long they had no core, and where looks saw them."""
    looks = [
        Look(
            0.1 * number,
            cast(
                "Any",
                SimpleNamespace(
                    threads=[SimpleNamespace(thread=it, part=parts[number]) for it, parts in seen_in.items()]
                ),
            ),
            {},
        )
        for number in range(11)
    ]
    times = {thread: ThreadTimes(*used, 0) for thread, used in threads.items()}
    return Window(looks, {thread: ThreadTimes(0.0, 0.0, 0) for thread in threads}, times)


def test_clocks_tell_for_how_long_the_threads_of_a_part_slept() -> None:
    always: list[int | None] = [1] * 11
    window = window_of({5: (0.4, 0.3), 6: (0.5, 0.4), 7: (0.1, 0.0)}, {5: always, 6: always, 7: [1, *[2] * 10]})
    assert window.asleep_in(1) == pytest.approx(0.2)
    # Thread 7 runs other ops as well, and no thread runs those of part 3.
    assert window.asleep_in(2) is None
    assert window.asleep_in(3) is None
    # A system that does not count it says 0.
    assert window_of({5: (0.4, 0.0)}, {5: always}).asleep_in(1) is None
    assert window_of({5: (0.7, 0.4)}, {5: always}).asleep_in(1) == 0


# ---- what is made of a window ----


@pytest.fixture(scope="module")
def seen() -> Iterator[tuple[PageHead, Window]]:
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
        yield page.head, watch(page, 0.2)
        last.set()


@linux
def test_clocks_say_for_how_long_threads_sleep_and_looks_for_what(seen: tuple[PageHead, Window]) -> None:
    head, window = seen
    (thread,) = (it.thread for it in window.after.seen.threads if it.part is not None and it.part >= 1)

    def share(doing: list[Doing], cpu: float, no_core: float) -> tuple[float, float, float]:
        looks = [Look(0.1 * number, window.after.seen, {thread: it}) for number, it in enumerate(doing)]
        seconds = looks[-1].seen_at - looks[0].seen_at
        times = {thread: ThreadTimes(cpu * seconds, no_core * seconds, 0)}
        given = Window(looks, {thread: ThreadTimes(0.0, 0.0, 0)}, times)
        stage = measure(head, given).stages[0]
        return stage.runs, stage.waits_for_thread, stage.waits

    # It was hardly seen to sleep, as it had no core when it woke.
    looks = 17 * [Doing.RUNS] + 2 * [Doing.WAITS_FOR_THREAD] + [Doing.WAITS]
    assert share(looks, 0.2, 0.5) == pytest.approx((0.7, 0.2, 0.1))
    # What it slept for is not known, or for how long is not.
    assert share(20 * [Doing.RUNS], 0.2, 0.5) == (1.0, 0.0, 0.0)
    assert share(looks, 0.2, 0.0) == pytest.approx((0.85, 0.1, 0.05))


@linux
def test_idle_cores_are_those_of_the_window(seen: tuple[PageHead, Window]) -> None:
    head, window = seen
    assert 0 <= window.cores_idle < 10_000
    assert measure(head, replace(window, cores_idle=1.5)).cores_idle == 1.5


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


@given(st.floats(1e-6, 1e12))
def test_a_nice_ceiling_is_above_and_near(value: float) -> None:
    found = nice_ceiling(value)
    assert value <= found <= value * 2.51
    assert f"{found:.0e}"[0] in "125"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.001234, "0.00123"),
        (0.5, "0.5"),
        (1, "1"),
        (12.345, "12.3"),
        (100, "100"),
        (999.9, "1,000"),
        (1234.5, "1,234"),
        (2_000_000, "2,000,000"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(0, 1e9, allow_subnormal=False))
def test_numbers_are_right_to_a_percent(value: float) -> None:
    assert math.isclose(float(number(value).replace(",", "")), value, rel_tol=0.01, abs_tol=1e-6)


def points(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split())]


def test_a_line_goes_through_its_points() -> None:
    root = parse_svg(chart("rate <&>", [Line("a & b", "busy", [(0.0, 0.0), (5.0, 10.0), (10.0, 5.0)])], seconds=10.0))
    assert root.get("aria-label") == "rate <&>"
    (line,) = root.iter("polyline")
    (x0, y0), (x1, y1), (x2, y2) = points(line.get("points", ""))
    assert x1 - x0 == pytest.approx(x2 - x1)
    # Downwards is more in SVG.
    assert y0 - y1 == pytest.approx(2 * (y0 - y2), abs=0.2)
    assert [each.text for each in root.iter("text")] == ["0", "5", "10", "0 s", "5 s", "10 s"]


def test_a_line_is_broken_where_nothing_is_known() -> None:
    curve = [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 1.0), (4.0, None), (5.0, 3.0), (6.0, 4.0)]
    root = parse_svg(chart("x", [Line("x", "busy", curve, filled=True)], seconds=6.0))
    assert [len(points(line.get("points", ""))) for line in root.iter("polyline")] == [2, 2]
    assert len(list(root.iter("circle"))) == 1


def test_nothing_to_draw_is_an_empty_chart() -> None:
    root = parse_svg(chart("x", [Line("x", "busy", [])], seconds=0.0, most=1.0, percent=True))
    assert list(root.iter("polyline")) == []
    assert "100 %" in [each.text for each in root.iter("text")]


def test_layers_of_a_fork() -> None:
    assert layers(((0, 1), (1, 2), (1, 3), (3, 4), (2, 5), (4, 5)), 6) == [[0], [1], [2, 3], [4], [5]]


@given(st.data())
def test_all_edges_lead_to_the_right(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    edges = {
        tuple(sorted(data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))))
        for _ in range(data.draw(st.integers(0, 8)) if count > 1 else 0)
    }
    found = layers(tuple((giver, taker) for giver, taker in edges), count)
    depths = {stage: depth for depth, members in enumerate(found) for stage in members}
    assert sorted(depths) == list(range(count))
    assert all(depths[giver] < depths[taker] for giver, taker in edges)


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
    root = parse_svg(graph(statistics))
    assert len(list(root.iter("path"))) == 9
    boxes = [rect for rect in root.iter("rect") if rect.get("class", "").startswith("box")]
    assert len(boxes) == 9
    # No two of them overlap.
    places = [(float(box.get("x", "")), float(box.get("y", ""))) for box in boxes]
    width, height = float(boxes[0].get("width", "")), float(boxes[0].get("height", ""))
    assert not [
        (a, b) for a in places for b in places if a < b and abs(a[0] - b[0]) < width and abs(a[1] - b[1]) < height
    ]
