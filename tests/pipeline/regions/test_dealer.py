"""Which worker of a region gets the next items."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from spdl.pipeline._regions.dealer import Dealer
from spdl.pipeline._regions.peer import Peer


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
