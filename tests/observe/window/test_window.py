"""What a pipeline does over a short time, in which it ends."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from tests.observe.asking import ask_until
from tests.observe.programs import own_page

from spdl.observe import Verdict, diagnose
from spdl.pipeline import PipelineBuilder

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
