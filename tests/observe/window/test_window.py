"""What a pipeline does over a short time, in which it may end."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from spdl.observe import diagnose, find_pipelines
from spdl.observe._window.window import watch
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")


def op(number: int) -> int:
    time.sleep(0.05)
    return number


def test_the_time_after_its_end_does_not_count() -> None:
    pipeline = PipelineBuilder().add_source(range(30)).pipe(op, name="op").add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        reader = threading.Thread(target=list, args=(pipeline,))
        reader.start()
        deadline = time.monotonic() + 30
        while not (pages := find_pipelines(os.getpid())):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        # Half of the time would be idle.
        verdict = diagnose(pages[0], seconds=4)
        reader.join()
    assert pages[0].state() == "ended"
    assert (verdict.kind, verdict.stage) == ("I/O", "op"), verdict.sentence()


def test_of_what_ends_at_once_all_counts() -> None:
    pipeline = PipelineBuilder().add_source(range(8)).pipe(op, name="op").add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        items = iter(pipeline)
        for _ in range(7):
            next(items)
        (page,) = find_pipelines(os.getpid())
        reader = threading.Timer(0.1, lambda: list(items))
        reader.start()
        window = watch(page, 30)
        reader.join()
    assert 0.3 <= window.seconds < 30


def compute(number: int) -> int:
    return sum(value * value for value in range(number))


@pytest.mark.parametrize("items", [10, 80])
def test_what_threads_computed_counts_although_they_have_ended(items: int) -> None:
    found = threading.Event()

    def numbers() -> Iterator[int]:
        assert found.wait(30)
        yield from [400_000] * items

    pipeline = PipelineBuilder().add_source(numbers()).pipe(compute, name="compute").add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        reader = threading.Thread(target=list, args=(pipeline,))
        reader.start()
        deadline = time.monotonic() + 30
        while not (pages := find_pipelines(os.getpid())):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        threading.Timer(0.05, found.set).start()
        window = watch(pages[0], 50)
        reader.join()
    assert pages[0].state() == "ended"
    by_ops = window.after.seen.stages[0].cpu_seconds - window.before.seen.stages[0].cpu_seconds
    assert by_ops > 0
    # What the ops computed is known from some of them, so it is no exact number.
    assert sum(window.cpu().values()) * window.seconds >= 0.5 * by_ops
