"""What is made of the looks at a pipeline, where a real page is seen and the looks say what could have been seen."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.observe.programs import own_page

from spdl.observe._why.measure import measure
from spdl.observe._window.thread_times import Doing, ThreadTimes
from spdl.observe._window.window import Look, Window, watch
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.observe._page.page_head import PageHead

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")


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


def test_clocks_say_for_how_long_threads_sleep_and_looks_for_what(seen: tuple[PageHead, Window]) -> None:
    head, window = seen
    (thread,) = (it.thread for it in window.after.seen.threads if it.part is not None and it.part >= 1)

    def share(doing: list[Doing], cpu: float, no_core: float) -> tuple[float, float, float]:
        looks = [Look(0.1 * number, window.after.seen, {thread: it}) for number, it in enumerate(doing)]
        seconds = looks[-1].seen_at - looks[0].seen_at
        times = {thread: ThreadTimes(cpu * seconds, no_core * seconds)}
        given = Window(looks, {thread: ThreadTimes(0.0, 0.0)}, times)
        stage = measure(head, given).stages[0]
        return stage.runs, stage.waits_for_thread, stage.waits

    # It was hardly seen to sleep, as it had no core when it woke.
    looks = 17 * [Doing.RUNS] + 2 * [Doing.WAITS_FOR_THREAD] + [Doing.WAITS]
    assert share(looks, 0.2, 0.5) == pytest.approx((0.7, 0.2, 0.1))
    # What it slept for is not known, or for how long is not.
    assert share(20 * [Doing.RUNS], 0.2, 0.5) == (1.0, 0.0, 0.0)
    assert share(looks, 0.2, 0.0) == pytest.approx((0.85, 0.1, 0.05))


def test_idle_cores_are_those_of_the_window(seen: tuple[PageHead, Window]) -> None:
    head, window = seen
    assert 0 <= window.cores_idle < 10_000
    assert measure(head, replace(window, cores_idle=1.5)).cores_idle == 1.5
