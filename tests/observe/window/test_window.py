"""What a pipeline does over a short time, in which it ends."""

from __future__ import annotations

import collections
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.observe.asking import ask_until
from tests.observe.programs import own_page

from spdl.observe import Verdict, diagnose
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]


def op(number: int) -> int:
    time.sleep(0.05)
    return number


def test_the_time_after_its_end_does_not_count() -> None:
    def watched() -> Verdict:
        pipeline = PipelineBuilder().add_source(range(30)).pipe(op, name="op").add_sink().build(num_threads=1)
        with pipeline.auto_stop():
            page = own_page(pipeline)
            reader = threading.Thread(target=list, args=(pipeline,))
            reader.start()
            # Half of the time would be idle.
            verdict = diagnose(page, seconds=4)
            reader.join()
        assert page.state() == "ended"
        return verdict

    verdict = ask_until(watched, lambda verdict: verdict.kind == "I/O")
    assert (verdict.kind, verdict.stage) == ("I/O", "op"), verdict.sentence()


ONE_AT_A_TIME = threading.Lock()


def at_a_lock(number: int) -> int:
    with ONE_AT_A_TIME:
        return op(number)


@pytest.mark.parametrize(("work", "kind"), [(op, "I/O"), (at_a_lock, "Lock")])
def test_statistics_look_at_threads_where_counters_do_not_tell(work: Callable[[int], int], kind: str) -> None:
    # With more threads than slots: else both may be the limit.
    pipeline = PipelineBuilder().add_source(iter(int, 1)).pipe(work, concurrency=4).add_sink(2).build(num_threads=6)
    with pipeline.auto_stop():
        reader = threading.Thread(target=collections.deque, args=(pipeline, 0), daemon=True)
        reader.start()
        said = ask_until(lambda: pipeline.statistics().bottleneck, lambda said: said.startswith(kind))
    reader.join()
    assert said.startswith(f"{kind}. '{work.__name__}': Its 4 slots are in use"), said
