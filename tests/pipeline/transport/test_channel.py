"""Test the channel between a process and a worker: what arrives, and who is woken by what."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import weakref
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.transport.work import wait_idly, worker

from spdl.pipeline._transport import lane
from spdl.pipeline._transport.signals import ChannelClosed, ItemNotSent, NotReadable, PeerGone

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl.pipeline._transport.channel import ParentEnd, WorkerEnd

pytestmark = pytest.mark.timeout(120)

METHODS = ["fork", "spawn", "forkserver"]


class Bad:
    """Pickles as something that cannot be unpickled."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


class Color(IntEnum):
    """Equal to an int, but another type."""

    RED = 1


def echo(end: WorkerEnd) -> None:
    end.begin()
    with suppress(PeerGone):
        while True:
            end.send([it for it in end.receive() if not isinstance(it, NotReadable)])


def send_and_exit(end: WorkerEnd) -> None:
    end.begin()
    end.send(["last words", np.arange(100_000)])


def send_bad(end: WorkerEnd) -> None:
    end.begin()
    end.send([1, Bad(), np.ones(10_000)])
    end.receive()


def send_bad_among_numbers(end: WorkerEnd) -> None:
    end.begin()
    end.send([0, 1, 2, Bad(), 3, 4])
    end.receive()


def fill(parent: ParentEnd) -> None:
    for _ in range(10_000):
        parent.send([bytes(1000)], timeout=60)


@pytest.mark.parametrize("method", METHODS)
def test_batches_go_both_ways(method: str) -> None:
    with worker(echo, method=method) as (parent, _):
        for batch in ([], [1, "two", None], [np.arange(n) for n in (0, 3, 5000, 500_000)], [bytes(200_000)] * 3):
            parent.send(batch)
            got = parent.receive(60)
            assert len(got) == len(batch)
            for ours, theirs in zip(got, batch, strict=True):
                np.testing.assert_array_equal(ours, theirs)
                if isinstance(ours, np.ndarray):
                    assert ours.flags.writeable


@pytest.mark.parametrize(
    "batch",
    [
        [0, 1, 2, 3, 4],
        [("a.jpg", 1), ("b.jpg", 2), ("c.jpg", None), ("d.jpg", 2.5)],
        ["one", b"two", 3, 4.0, 5j, None, True, (), ("six", b"seven")],
        [1, 2, 3, Color.RED, Color.RED],
        [(1, [2]), (1, [2]), (1, {"two": 2}), 1],
        [b"x" * size for size in (0, 10, 100_000, 1_000_000)],
        ["\ud800", "\x00", "z" * 70_000, 1 << 4000],
    ],
)
def test_batches_of_small_items_keep_what_they_are(batch: list[Any]) -> None:
    with worker(echo) as (parent, _):
        for _ in range(3):
            parent.send(batch)
            got = parent.receive(60)
            assert got == batch
            assert list(map(type, got)) == list(map(type, batch))


def test_what_was_sent_is_not_kept() -> None:
    with worker(echo) as (parent, _):
        for size in (10, 100_000):
            array = np.ones(size)
            gone = weakref.ref(array)
            parent.send([array])
            del array
            assert gone() is None
            parent.receive(60)


def test_items_of_one_batch_share_no_object() -> None:
    shared: list[int] = []
    with worker(echo) as (parent, _):
        parent.send([0, (shared,), (shared,), (shared,), shared])
        _, (first,), (second,), *_ = parent.receive(60)
        assert first is not second


def test_an_item_that_cannot_be_read_among_small_ones() -> None:
    with worker(send_bad_among_numbers) as (parent, _):
        head, *rest = parent.receive(60)
        assert head == 0
        assert [it for it in rest if not isinstance(it, NotReadable)] == [1, 2, 3, 4]
        assert isinstance(rest[2], NotReadable)


def test_what_was_sent_before_the_end_arrives() -> None:
    with worker(send_and_exit) as (parent, _):
        words, array = parent.receive(60)
        assert words == "last words"
        np.testing.assert_array_equal(array, np.arange(100_000))
        with pytest.raises(PeerGone):
            parent.receive(60)
        with pytest.raises(PeerGone):
            fill(parent)


def test_items_that_cannot_be_sent_or_read() -> None:
    with worker(send_bad) as (parent, _):
        one, bad, ones = parent.receive(60)
        assert one == 1
        assert isinstance(bad, NotReadable)
        assert isinstance(bad.error, ValueError)
        np.testing.assert_array_equal(ones, np.ones(10_000))
        with pytest.raises(ItemNotSent) as raised:
            parent.send([1, lambda: None])
        assert raised.value.index == 1
        parent.send(["done"])


def test_a_kill_wakes_a_reader() -> None:
    with worker(wait_idly) as (parent, process):
        raised: list[type[BaseException]] = []

        def read() -> None:
            try:
                parent.receive()
            except BaseException as error:  # noqa: BLE001 - it is compared.
                raised.append(type(error))

        reader = threading.Thread(target=read)
        reader.start()
        os.kill(process.pid, signal.SIGKILL)
        reader.join(60)
        assert raised == [PeerGone]


def test_closing_wakes_a_reader_of_either_side() -> None:
    with worker(echo) as (parent, process):
        raised: list[type[BaseException]] = []
        waits = threading.Event()

        def read() -> None:
            waits.set()
            try:
                parent.receive()
            except BaseException as error:  # noqa: BLE001 - it is compared.
                raised.append(type(error))

        reader = threading.Thread(target=read)
        reader.start()
        waits.wait()
        parent.close()
        reader.join(60)
        assert raised == [ChannelClosed]
        process.join(60)
        assert process.exitcode == 0


def send_until_closed(end: ParentEnd | WorkerEnd, sent: list[int], raised: list[type[BaseException]]) -> None:
    try:
        while True:
            end.send([bytes(60_000)])
            sent.append(1)
    except BaseException as error:  # noqa: BLE001 - it is compared.
        raised.append(type(error))


def close_while_another_sends(end: ParentEnd | WorkerEnd) -> list[type[BaseException]]:
    """Close an end while a thread waits in ``send`` for room; return what it raised there."""
    sent: list[int] = []
    raised: list[type[BaseException]] = []
    sender = threading.Thread(target=send_until_closed, args=(end, sent, raised), daemon=True)
    sender.start()
    # The ring has room for four. Then the thread waits, or is just about to.
    while len(sent) < 4:
        time.sleep(0.01)
    time.sleep(0.2)
    closer = threading.Thread(target=end.close, daemon=True)
    closer.start()
    closer.join(20)
    # It may come to what it raises a moment later.
    sender.join(20)
    return raised if not closer.is_alive() else [TimeoutError]


def close_while_sending(end: WorkerEnd, told: Connection) -> None:
    end.begin()
    told.send([it.__name__ for it in close_while_another_sends(end)])


def test_closing_wakes_a_sender() -> None:
    with worker(wait_idly_for_long) as (parent, process):
        try:
            assert close_while_another_sends(parent) == [ChannelClosed]
        finally:
            process.kill()


def test_closing_wakes_a_sender_of_the_worker() -> None:
    heard, told = multiprocessing.Pipe(duplex=False)
    with worker(close_while_sending, told) as (_, process):
        try:
            assert heard.poll(60)
            assert heard.recv() == ["ChannelClosed"]
        finally:
            process.kill()


def wait_idly_for_long(end: WorkerEnd) -> None:
    end.begin()
    time.sleep(60)


def test_a_look_and_a_timeout() -> None:
    with worker(wait_idly) as (parent, _):
        for timeout in (0, 0.01):
            with pytest.raises(TimeoutError):
                parent.receive(timeout)


def test_a_fork_of_the_owner_is_told() -> None:
    with worker(echo) as (parent, _):
        pid = os.fork()
        if not pid:
            try:
                parent.send([1])
            except (RuntimeError, ChannelClosed):
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        parent.send([1])
        assert parent.receive(60) == [1]


def test_a_system_without_eventfds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd", raising=False)
    with worker(echo) as (parent, process):
        for count in range(2000):
            parent.send([count, bytes(count)])
            assert parent.receive(60) == [count, bytes(count)]
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(PeerGone):
            parent.receive(60)


def test_memory_that_was_needed_once_is_given_back() -> None:
    """The memory of items that were all held at once is not kept for ever by a channel that needs little."""
    with worker(echo) as (parent, _):
        held = []
        for _ in range(12):
            parent.send([np.ones(1 << 24, np.uint8)])
            held += parent.receive(60)
        most = _shared_bytes()
        held.clear()
        for _ in range(1500):
            parent.send([np.ones(5000, np.uint8)])
            parent.receive(60)
        assert most > 12 << 24
        assert _shared_bytes() < most - (6 << 24)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_kept_fills_only_what_is_mapped(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "largest_mapped", lambda: 1 << 20)
    before = _shared_bytes()
    with worker(echo, method=method) as (parent, _):
        kept = []
        for number in range(30):
            # The array fits, or not, beside those that are kept. The string never does, and has no buffers.
            batch = [
                np.full(200_000, number, np.uint8),
                np.full(3_000_000, number, np.uint8),
                str(number % 10) * 2_000_000,
            ]
            parent.send(batch)
            small, large, text = parent.receive(60)
            assert text == batch[2]
            kept += [small, large]
        for place, array in enumerate(kept):
            assert array.flags.writeable
            assert (array == place // 2).all()
        # The reader has copied it, and it was used again.
        assert _shared_bytes() - before < 40_000_000
        kept.clear()
        parent.send([np.ones(500_000, np.uint8)])
        assert parent.receive(60)[0].all()


def test_the_numbers_of_a_lane_say_how_much_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "largest_mapped", lambda: 1 << 20)
    for ends in lane.make_lane():
        copied = lane.Ends.copy_of(ends.numbers())
        assert (copied.memory.size, copied.memory.mapped) == (ends.memory.size, 1 << 20)
        copied.close()
        ends.close()


def _shared_bytes() -> int:
    """Return how much memory without a name this process has open."""
    total = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as the system counts them.
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:spdl"):  # noqa: PTH115
                total += os.stat(f"/proc/self/fd/{name}").st_blocks * 512  # noqa: PTH116
    # A mapping has a descriptor of its own.
    return total // 2
