"""Random graphs of all kinds of stages give the same results while they are traced, and their traces are whole."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.test_random_graphs import expect_all, graphs, running, slowly
from tests.traces import read

from spdl.observe import record_trace

pytestmark = pytest.mark.filterwarnings("ignore:The source of the pipeline")


@pytest.mark.timeout(300)
@slowly(60)
@given(graph=graphs, num_threads=st.integers(4, 6), sink=st.integers(1, 5))
def test_traced_pipelines_do_the_same(graph: Any, num_threads: int, sink: int) -> None:
    expected = expect_all(graph)
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.json.gz")
        with record_trace(path), running(graph, num_threads, sink) as pipeline:
            got = list(pipeline.get_iterator(timeout=60))
        trace = read(path)

    assert Counter(got) == Counter(expected)
    assert pipeline.statistics().in_flight == 0
    flows = trace.flows()
    # Each source item has a flow, and each step of the consumer is on the way of at least one.
    assert len(flows) == sum(size for size, _ in graph[0])
    steps = trace.named("step")
    assert len(steps) == len(got)
    assert all(step.flows for step in steps)
    for pieces in flows.values():
        # It begins in a source, and what comes of it is used after it was made.
        assert pieces[0].name.startswith("src")
        assert all(piece.begin >= (pieces[0].end or 0) for piece in pieces[1:])
    # All that has begun has ended.
    assert all(piece.end is not None for row in trace.rows.values() for piece in row.pieces)
