"""When a region tells its workers that nothing more will come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._regions.peer import Peer
from spdl.pipeline._regions.region_node import RegionNode
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops


def test_not_while_something_is_sent() -> None:
    # That may be the item of a worker that has died since the end was due.
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = PipelineBuilder[int, int]().add_source([1]).to(workers).pipe(ops.same).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=1)
    (region,) = (node for node in pipeline._engine.nodes if isinstance(node, RegionNode))
    worker: Any = SimpleNamespace(channel=None)
    peer = Peer(worker, 0, 64)
    region.staff.peers = [peer]
    region.flush_due = True
    peer.begin_sending()
    assert not region.ready()
    peer.end_sending()
    assert region.ready()
    # There is no worker to be ended.
    region.staff.peers = []
    region.flush_due = False
