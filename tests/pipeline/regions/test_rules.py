"""Rules of regions that no call of the user shows: who looks at what, and in which order.

Most of them say what happens where two threads meet at the worst moment, which is made by hand here.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from multiprocessing import forkserver
from threading import Event, Thread, current_thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.interpreters import needs_interpreters, use_interpreters
from tests.pipeline.support import build, wait_until

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._elsewhere import region_node, region_workers
from spdl.pipeline._elsewhere.lane import PeerGone
from spdl.pipeline._elsewhere.region_node import Dealer, Peer, RegionNode
from spdl.pipeline._elsewhere.region_worker import BufferedLines, ReceivedItems, RegionOutbox, WorkerPlace
from spdl.pipeline._elsewhere.region_workers import RegionWorker
from spdl.pipeline._elsewhere.regions import Staff
from spdl.pipeline._elsewhere.worker_channel import ParentEnd
from spdl.pipeline._elsewhere.worker_messages import RaisedHere
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    InterpreterPoolExecutorConfig,
    ProcessPoolExecutorConfig,
    ThreadPoolExecutorConfig,
)

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spdl.pipeline import Pipeline
    from spdl.pipeline.defs import ExecutorConfig

pytestmark = pytest.mark.timeout(120)


def region(workers: ExecutorConfig, op: Any, items: Any) -> Pipeline[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(items).to(workers).pipe(op).to(MAIN_PROCESS)
    return builder.add_sink().build(num_threads=1)


def node_of(pipeline: Pipeline[Any]) -> RegionNode:
    (node,) = (node for node in pipeline._engine.nodes if isinstance(node, RegionNode))
    return node


# ---- which worker gets the next items, and when it is told of the end ----


class Way:
    """The channel to a worker."""

    def __init__(self) -> None:
        self.room = True

    def has_room(self) -> bool:
        return self.room


def dealer_of(peers: list[Peer], *, reruns: bool) -> Dealer:
    """Return the dealer of a region in front of which one item waits."""
    queue: Any = SimpleNamespace(queue=deque([(0, "item")]), order=None)
    workers: Any = SimpleNamespace(peers=peers, reruns=reruns)
    return Dealer(queue, workers, with_contexts=False, gathers=False)


@pytest.mark.parametrize("reruns", [False, True])
def test_dealer_gives_nothing_to_a_worker_without_room(reruns: bool) -> None:  # noqa: FBT001 - a test's parameter.
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


def test_dealer_looks_at_no_worker_that_is_being_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Peer] = []

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: RegionWorker, *arguments: Any, **options: Any) -> Any:
            looked_at.extend(peer for peer in node.dealer._awake() if peer.worker is self)
            return method(self, *arguments, **options)

        return call

    for name in ("close", "end"):
        monkeypatch.setattr(RegionWorker, name, watched(getattr(RegionWorker, name)))
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    pipeline = region(workers, ops.DieOnce(str(tmp_path / "died"), 3), range(1000))
    node = node_of(pipeline)
    # One of them dies, and both are there when the pipeline is stopped in the middle.
    with pipeline.auto_stop():
        assert len(list(islice(pipeline.get_iterator(timeout=60), 300))) == 300
    assert not looked_at


def test_region_tells_of_the_end_only_when_nothing_is_sent() -> None:
    # What is sent may be the item of a worker that has died since the end was due.
    pipeline = region(ProcessPoolExecutorConfig(2, on_death="rerun"), ops.same, [1])
    node = node_of(pipeline)
    worker: Any = SimpleNamespace(channel=None)
    peer = Peer(worker, 0, 64)
    node.staff.peers = [peer]
    node.flush_due = True
    peer.sending = True
    assert not node.ready()
    peer.sending = False
    assert node.ready()
    # There is no worker to be ended.
    node.staff.peers = []
    node.flush_due = False


# ---- news that come between two looks ----


class LastWords:
    """A connection that is closed after the first report."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def send(self, items: Any) -> None:
        self.reports.append(items[0])
        raise PeerGone


def test_outbox_sends_what_is_lost_while_it_looks_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = build()
    end: Any = LastWords()
    place = WorkerPlace(alone=False, grace=None, lines=BufferedLines(), wrap=RaisedHere, began=lambda _: None)
    outbox = RegionOutbox(pipeline._engine, [], ReceivedItems(end), end, place, most=1, every=3600.0, load=None)
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


def test_region_goes_on_when_room_is_made_while_it_looks_whom_to_listen_to(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with region(ThreadPoolExecutorConfig(1), ops.same, range(1000)).auto_stop() as pipeline:
        # Nobody reads, so results find no room.
        assert looked.wait(60)
        assert list(pipeline.get_iterator(timeout=60)) == list(range(1000))


# ---- starts, deaths and ends ----


def test_stop_waits_for_ops_although_the_thread_of_the_region_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops.Stuck()
    run_now = Staff._run

    def run_late(staff: Staff) -> None:
        assert staff._region is not None
        workers = [each for each in staff._region.engine.workers.threads if each is not threading.current_thread()]
        assert wait_until(lambda: not any(each.is_alive() for each in workers), 60)
        run_now(staff)

    monkeypatch.setattr(Staff, "_run", run_late)
    pipeline = region(ThreadPoolExecutorConfig(1), op, range(100))
    pipeline.start()
    assert op.entered.wait(60)
    with pytest.raises(TimeoutError, match=r"1 op\(s\) of the pipeline still run.*\n.*Stage 'Stuck'"):
        pipeline.stop(timeout=1)
    op.leave.set()
    pipeline.stop()


@pytest.mark.timeout(60)
def test_stop_waits_for_no_process_that_has_yet_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    # One that works would get as long.
    monkeypatch.setattr(region_node, "_GRACE", 100.0)
    workers = ProcessPoolExecutorConfig(1, initializer=time.sleep, initargs=(100,))
    pipeline = region(workers, ops.same, [1])
    with pipeline.auto_stop(), pytest.raises(TimeoutError):
        pipeline.get_item(timeout=0.5)


class DieTogether:
    """Two items kill their processes, as soon as both have begun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        if not (died := self.folder / str(item)).exists():
            died.touch()
            assert wait_until((self.folder / str(1 - item)).exists, 60)
            os._exit(1)
        return item


def test_processes_that_die_at_once_are_no_series_of_deaths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # There may be more processes than it takes for one.
    monkeypatch.setattr(region_node, "_MOST_DEATHS_IN_A_ROW", 2)
    pipeline = region(ProcessPoolExecutorConfig(2, on_death="rerun"), DieTogether(tmp_path), range(2))
    with pipeline.auto_stop():
        assert sorted(pipeline.get_iterator(timeout=60)) == [0, 1]
        assert pipeline.failures() == []


def test_start_tells_of_a_fork_server_that_refuses_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        raise ConnectionRefusedError

    monkeypatch.setattr(forkserver, "connect_to_new_process", refuse)
    monkeypatch.setattr(region_workers, "_SERVER_SECONDS", 0.1)
    pipeline = region(ProcessPoolExecutorConfig(1, mp_context="forkserver"), ops.same, range(9))
    with pytest.raises(RuntimeError, match=r"region\(same\) cannot be started: .*fork server.*spawn"):
        pipeline.start()
    pipeline.stop()


@needs_interpreters
def test_an_interpreter_that_cannot_be_listened_to_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    use_interpreters(monkeypatch)

    def refuse(*_: Any) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(ParentEnd, "_open", refuse)
    pipeline = region(InterpreterPoolExecutorConfig(1), ops.same, range(100))
    with pytest.raises(OSError, match="memory"):
        pipeline.start()
    pipeline.stop()
    assert wait_until(lambda: not any(thread.name == "spdl_subinterpreter" for thread in threading.enumerate()), 60)
