"""A region whose results find no room for a while: it goes on, whenever room is made."""

from __future__ import annotations

import sys
from threading import Event, current_thread
from typing import TYPE_CHECKING

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._regions.peer import Peer
from spdl.pipeline.defs import MAIN_PROCESS, ThreadPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    import pytest


def test_room_that_is_made_while_the_region_looks_whom_to_listen_to(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, goes_on = Event(), Event()

    def is_paused(peer: Peer) -> bool:
        paused: bool = peer.__dict__["paused now"]
        # Its own frame, or that of an expression in it.
        looks = sys._getframe(1).f_code.co_name in ("_listen", "<listcomp>")
        if paused and looks and current_thread().name.startswith("spdl_region_thread") and not looked.is_set():
            looked.set()
            assert goes_on.wait(60)
        return paused

    def pause(peer: Peer, paused: bool) -> None:  # noqa: FBT001 - as properties do.
        peer.__dict__["paused now"] = paused
        if looked.is_set() and not paused:
            goes_on.set()

    monkeypatch.setattr(Peer, "paused", property(is_paused, pause), raising=False)
    builder = PipelineBuilder[int, int]().add_source(range(1000)).to(ThreadPoolExecutorConfig(1)).pipe(ops.same)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        # Nobody reads, so results find no room.
        assert looked.wait(60)
        assert list(pipeline.get_iterator(timeout=20)) == list(range(1000))
