import threading
import time
import weakref
from itertools import pairwise

import pytest
from tests.observe.export.observed import Told, stage, told

from spdl.observe import History
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStatistics


class Counting:
    """Has emitted one item more each time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def statistics(self) -> PipelineStatistics:
        self.asked += 1
        return told(stage("sink", num_emitted=self.asked), elapsed=float(self.asked)).now


def emitted(history: History) -> list[int]:
    return [sample.statistics.stages[0].num_emitted for sample in history.samples()]


def test_it_reads_at_intervals_and_at_the_end() -> None:
    counting = Counting()
    with History(counting, interval=0.01) as history:
        deadline = time.monotonic() + 60
        while len(history.samples()) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    found = emitted(history)
    assert found == sorted(set(found))
    assert found[-1] == counting.asked
    ats = [sample.at for sample in history.samples()]
    assert ats == sorted(ats)
    assert 0 <= ats[0] < ats[-1]


def test_however_long_it_takes_a_thousand_samples_are_kept() -> None:
    observed = told(stage("sink"))
    history = History(observed, interval=1000)
    most = 0
    for tick in range(1, 20_001):
        observed.now = told(stage("sink", num_emitted=tick)).now
        history._read_some()
        most = max(most, len(history.samples()))
    history.close()
    found = emitted(history)
    assert 500 <= len(found) <= most + 1 <= 1001
    # They cover all of it, evenly.
    assert found[0] == 0
    assert found[-1] == 20_000
    assert {after - before for before, after in pairwise(found[:-1])} == {32}


def test_it_keeps_the_pipeline_until_it_is_closed() -> None:
    pipeline: Pipeline[int] = PipelineBuilder().add_source(range(3)).add_sink().build(num_threads=1)
    found = weakref.ref(pipeline)
    history = History(pipeline, interval=1000)
    del pipeline
    assert found() is not None
    history.close()
    assert found() is None
    assert len(history.samples()) == 2
    history.close()
    assert len(history.samples()) == 2


def test_it_may_be_read_by_others_meanwhile() -> None:
    history = History(Counting(), interval=0.001)
    seen: list[int] = []

    def look() -> None:
        seen.extend(len(history.samples()) for _ in range(200))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history.close()
    assert len(seen) == 600


def test_wrong_arguments_are_refused() -> None:
    observed: Told = told(stage("sink"))
    with pytest.raises(TypeError, match="`pipeline` must be a pipeline or a loader"):
        History(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`interval` must be a finite number of seconds, more than 0"):
        History(observed, interval=-1)
