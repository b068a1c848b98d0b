"""What a pipeline does over a short time, in which it may end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.observe.programs import observed, own_page, running

from spdl.observe import diagnose
from spdl.observe._window.thread_times import ThreadTimes
from spdl.observe._window.window import Look, Window, watch
from spdl.pipeline import PipelineBuilder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")


def op(number: int) -> int:
    time.sleep(0.05)
    return number


def test_the_time_after_its_end_does_not_count() -> None:
    pipeline = PipelineBuilder().add_source(range(30)).pipe(op, name="op").add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        page = own_page(pipeline)
        reader = threading.Thread(target=list, args=(pipeline,))
        reader.start()
        # Half of the time would be idle.
        verdict = diagnose(page, seconds=4)
        reader.join()
    assert page.state() == "ended"
    assert (verdict.kind, verdict.stage) == ("I/O", "op"), verdict.sentence()


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
    times = {thread: ThreadTimes(*used) for thread, used in threads.items()}
    return Window(looks, {thread: ThreadTimes(0.0, 0.0) for thread in threads}, times)


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
