"""Which worker of a region gets the next items."""

from __future__ import annotations

from collections import deque
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._regions.dealer import Dealer
from spdl.pipeline._regions.peer import Peer
from spdl.pipeline._regions.region_node import RegionNode
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Way:
    """The channel to a worker."""

    def __init__(self) -> None:
        self.room = True

    def has_room(self) -> bool:
        return self.room


def dealer_of(peers: list[Peer], *, reruns: bool) -> Dealer:
    """Return the dealer of a region in front of which one item waits."""
    region: Any = SimpleNamespace(queue=deque([(0, "item")]), order=None)
    workers: Any = SimpleNamespace(peers=peers, reruns=reruns)
    return Dealer(region, workers, lambda *_: None, with_contexts=False, gathers=False)


@pytest.mark.parametrize("reruns", [False, True])
def test_no_thread_has_to_wait_for_room(reruns: bool) -> None:  # noqa: FBT001 - a test's parameter.
    ways = [Way(), Way()]
    made: list[Any] = [SimpleNamespace(channel=way) for way in ways]
    peers = [Peer(worker, number, 64) for number, worker in enumerate(made)]
    dealer = dealer_of(peers, reruns=reruns)
    assert dealer.worker() is peers[0]
    ways[0].room = False
    assert dealer.worker() is peers[1]
    ways[1].room = False
    assert dealer.worker() is None
    ways[0].room = True
    assert dealer.worker() is peers[0]


def test_nobody_looks_for_room_in_what_is_being_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Peer] = []

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Peer, *arguments: Any) -> Any:
            looked_at.extend(peer for peer in region.dealer._awake() if peer is self)
            return method(self, *arguments)

        return call

    monkeypatch.setattr(Peer, "close", watched(Peer.close))
    monkeypatch.setattr(Peer, "end", watched(Peer.end))
    builder = PipelineBuilder[int, int]().add_source(range(1000)).to(ProcessPoolExecutorConfig(2, on_death="rerun"))
    builder = builder.pipe(ops.DieOnce(str(tmp_path / "died"), 3)).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=1)
    (region,) = (node for node in pipeline._engine.nodes if isinstance(node, RegionNode))
    # One of them dies, and both are there when the pipeline is stopped in the middle.
    with pipeline.auto_stop():
        assert len(list(islice(pipeline.get_iterator(timeout=60), 300))) == 300
    assert not looked_at
