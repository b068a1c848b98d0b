"""Kill workers and parents at all moments: the other one notices at once, and nothing is left.

There are a few kills here. ``SPDL_KILLS=200 SPDL_RECORDS=FOLDER`` in the environment asks for 200 and writes down what
they found.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.leaks import FORGOTTEN
from tests.pipeline.transport.work import MB, echo, lend_arrays, record, wait_idly, worker, write_arrays

from spdl.pipeline._metrics.page_folder import page_folder
from spdl.pipeline._transport.signals import PeerGone

KILLS = int(os.environ.get("SPDL_KILLS", "16"))
MOMENTS = {"idle": wait_idly, "loaned": lend_arrays, "writing": write_arrays, "waking": echo}
# Far more than the machine ever takes. What it took is recorded.
SOON = 30.0

pytestmark = pytest.mark.timeout(60 + 4 * KILLS)


def use(parent: Any, moment: str, seen: list[Any]) -> None:
    """Do the parent's part until the worker is gone. Everything that arrives must be whole."""
    if moment in ("idle", "loaned"):
        while True:
            seen += parent.receive()
    number = 0
    while True:
        parent.send([number])
        (item,) = parent.receive()
        if moment == "waking":
            assert item == number
        else:
            assert item.size == 4 * MB
            assert (item == number % 251).all()
        number += 1


def kill_worker(moment: str, delay: float) -> float:
    """Kill a worker, and return the seconds until the parent noticed."""
    seen: list[Any] = []
    with worker(MOMENTS[moment]) as (parent, process):
        killer = os.fork()
        if not killer:
            time.sleep(delay)
            os.write(_PIPE[1], str(time.monotonic()).encode())
            os.kill(process.pid, signal.SIGKILL)
            os._exit(0)
        with pytest.raises(PeerGone):
            use(parent, moment, seen)
        noticed = time.monotonic()
        os.waitpid(killer, 0)
        killed = float(os.read(_PIPE[0], 100))
    if moment == "loaned":
        for number, array in enumerate(seen):
            assert (array == number).all()
            array[:] = 99
    return noticed - killed


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def segments() -> set[str]:
    """Return the names of our segments, without the folder of the pages and what other tests leave on purpose."""
    folder = Path("/dev/shm")  # noqa: S108 - where the system has them.
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {name for name in names if "spdl" in name and name != page_folder().name and not name.startswith(FORGOTTEN)}


def kill_parent(moment: str, delay: float) -> float:
    """Kill a process that has a worker, and return the seconds until the worker was gone."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with worker(MOMENTS[moment]) as (parent, process):
                os.write(writer, str(process.pid).encode())
                use(parent, moment, [])
        finally:
            os._exit(1)
    os.close(writer)
    orphan = psutil.Process(int(os.read(reader, 100)))
    os.close(reader)
    time.sleep(delay)
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while not is_gone(orphan):
        assert time.monotonic() - begin < SOON, "the worker outlives its parent"
        time.sleep(0.001)
    return time.monotonic() - begin


_PIPE = os.pipe()


def test_kills_at_all_moments() -> None:
    drawn = random.Random(7)  # noqa: S311 - nothing here is secret.
    before = segments()
    took: dict[str, list[float]] = {}
    for count in range(KILLS):
        moment = list(MOMENTS)[count // 2 % len(MOMENTS)]
        victim = ("worker", "parent")[count % 2]
        seconds = (kill_worker if victim == "worker" else kill_parent)(moment, drawn.random() * 0.1)
        assert seconds < SOON
        took.setdefault(f"{victim}, {moment}", []).append(seconds)
    assert not segments() - before
    longest = {name: round(max(each), 4) for name, each in took.items()}
    record("out_of_process_kills", kills=KILLS, longest_seconds_until_noticed=longest)
