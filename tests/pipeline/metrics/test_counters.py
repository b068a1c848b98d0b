"""The records of stages and queues, and their snapshots in flat blocks of integers."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING, Any

from tests.pipeline.support import source

from spdl.pipeline import build_pipeline
from spdl.pipeline._metrics.counters import (
    QUEUE_FIELDS,
    QUEUE_SNAPSHOT_SIZE,
    STAGE_FIELDS,
    STAGE_SNAPSHOT_SIZE,
    QueueCounters,
    StageCounters,
)
from spdl.pipeline._metrics.histogram import BINS
from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Sequence


def read(block: Sequence[int], fields: Sequence[str], offset: int = 0) -> dict[str, float]:
    """Read a snapshot back."""
    return {
        name: block[offset + index] / 1e9 if name.endswith("_seconds") else block[offset + index]
        for index, name in enumerate(fields)
    }


def test_every_counter_is_in_the_snapshot() -> None:
    # The counters need these for themselves: clocks and the choice of what is measured next.
    own = {"got_at", "queue", "sample_at", "sampling", "times", "waiting_for", "waiting_since", "waits", "weight"}
    gauges = {"concurrency", "running", "queued", "starved_seconds", "blocked_seconds", "held_seconds"}
    assert set(STAGE_FIELDS) - gauges == set(StageCounters.__slots__) - own
    own = {"emptied_at", "filled_at", "get_times", "got_at", "late", "put_times", "sample_at", "sampling", "weight"}
    assert set(QUEUE_FIELDS) == set(QueueCounters.__slots__) - own


def test_a_snapshot_tells_what_the_statistics_tell() -> None:
    def op(item: int) -> int | None:
        time.sleep(0.001)
        if item == 3:
            raise ValueError(item)
        return item if item % 2 else None

    pipeline = source(range(20)).pipe(op, name="op", concurrency=3).add_sink(30).build(num_threads=2)
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 9
    node = pipeline._engine.nodes[0]
    block = array("q", [-1]) * (STAGE_SNAPSHOT_SIZE + QUEUE_SNAPSHOT_SIZE + 2)
    end = node.snapshot(block, 1)
    assert end == 1 + STAGE_SNAPSHOT_SIZE + QUEUE_SNAPSHOT_SIZE
    assert (block[0], block[end]) == (-1, -1)
    assert -1 not in block[1:end]
    seen = read(block, STAGE_FIELDS, 1)
    (stage,) = (each for each in pipeline.statistics().stages if each.name == "op")
    told = {
        "concurrency": stage.concurrency,
        "running": stage.running,
        "queued": stage.queue_size,
        "completed": stage.num_completed,
        "emitted": stage.num_emitted,
        "failed": stage.num_failed,
        "dropped": stage.num_dropped,
        "retried": stage.num_retried,
        "overdue": stage.num_overdue,
        "steps": 0,
    }
    assert {name: seen[name] for name in told} == told
    assert (seen["completed"], seen["failed"], seen["dropped"]) == (19, 1, 10)
    for name in ("busy_seconds", "cpu_seconds", "starved_seconds", "blocked_seconds", "held_seconds"):
        assert abs(seen[name] - getattr(stage, name)) < 1e-6
    times = block[1 + len(STAGE_FIELDS) : 1 + len(STAGE_FIELDS) + BINS]
    assert sum(times) == 19
    assert list(times) == node.counters.times.counts
    queue = read(block, QUEUE_FIELDS, 1 + STAGE_SNAPSHOT_SIZE)
    assert queue["fill"] == node.input.counters.fill


def test_a_merge_has_the_queues_of_all_branches() -> None:
    branches = [PipelineConfig(SourceConfig(range(count)), [], SinkConfig(1)) for count in (3, 5)]
    config: PipelineConfig[Any] = PipelineConfig(Merge(branches), [], SinkConfig(20))
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert len(list(pipeline)) == 8
    (node,) = pipeline._engine.nodes
    block = array("q", [0]) * (STAGE_SNAPSHOT_SIZE + 2 * QUEUE_SNAPSHOT_SIZE)
    assert node.snapshot(block) == len(block)
    taken = [
        read(block, QUEUE_FIELDS, STAGE_SNAPSHOT_SIZE + index * QUEUE_SNAPSHOT_SIZE)["taken"] for index in range(2)
    ]
    assert taken == [3, 5]
