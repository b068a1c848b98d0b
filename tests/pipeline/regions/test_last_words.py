"""What a worker tells, and when."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from tests.pipeline.support import build

from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._region_worker.feed import Feed
from spdl.pipeline._region_worker.lines import Lines
from spdl.pipeline._region_worker.outbox import Outbox, Telling
from spdl.pipeline._regions.messages import RaisedHere
from spdl.pipeline._transport.signals import PeerGone

if TYPE_CHECKING:
    import pytest


class LastWords:
    """A connection that is closed after the first report."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def send(self, items: Any, timeout: float | None = None) -> None:
        self.reports.append(items[0])
        raise PeerGone


def test_an_item_that_is_lost_while_it_looks_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = build()
    end: Any = LastWords()
    outbox = Outbox(pipeline._engine, [], Feed(), end, Telling(1, 3600.0, None), lines=Lines(), wrap=RaisedHere)
    found_nothing = Engine.found_nothing

    def found_nothing_yet(engine: Engine) -> None:
        found_nothing(engine)
        # As the thread that receives items does, which takes no lock.
        outbox.note_unreadable(5, OSError("lost"))

    def run() -> None:
        with suppress(PeerGone):
            outbox.run()

    monkeypatch.setattr(Engine, "found_nothing", found_nothing_yet)
    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    (report,) = end.reports
    assert report.done == [5]
