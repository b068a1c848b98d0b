"""Kill workers and parents at all moments: the other one notices at once, and nothing is left.

There are a few kills here. ``SPDL_KILLS=200 SPDL_RECORDS=FOLDER`` in the environment asks for 200 and writes down what
they found.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from tests.leaks import FORGOTTEN
from tests.pipeline.transport.work import MB, record

from spdl.pipeline import iterate_in_subprocess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KILLS = int(os.environ.get("SPDL_KILLS", "16"))
# Far more than the machine ever takes. What it took is recorded.
SOON = 30.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(60 + 4 * KILLS)]


def wait_idly() -> Iterator[Any]:
    """Give nothing."""
    time.sleep(600)
    yield None


def lend_arrays() -> Iterator[Any]:
    """Give arrays, and then nothing while the parent holds them."""
    yield from (np.full(MB, number, np.uint8) for number in range(4))
    time.sleep(600)


def write_arrays() -> Iterator[Any]:
    """Give large arrays without pause."""
    number = 0
    while True:
        yield np.full(4 * MB, number % 251, np.uint8)
        number += 1


def count() -> Iterator[Any]:
    """Give one small item after the other."""
    number = 0
    while True:
        yield number
        number += 1


MOMENTS: dict[str, Callable[[], Iterator[Any]]] = {
    "idle": wait_idly,
    "loaned": lend_arrays,
    "writing": write_arrays,
    "waking": count,
}


def start(moment: str) -> tuple[Iterator[Any], Any]:
    """Start a worker; return its items and its process."""
    before = set(multiprocessing.active_children())
    items = iterate_in_subprocess(MOMENTS[moment], buffer_size=1, mp_context="fork")
    (process,) = set(multiprocessing.active_children()) - before
    return iter(items), process


def use(items: Iterator[Any], moment: str, seen: list[Any]) -> None:
    """Take items until the worker is gone. Everything that arrives must be whole."""
    for number, item in enumerate(items):
        if moment == "waking":
            assert item == number
        elif moment == "writing":
            assert item.size == 4 * MB
            assert (item == number % 251).all()
        else:
            seen.append(item)


def kill_worker(moment: str, delay: float) -> float:
    """Kill a worker, and return the seconds until the parent noticed."""
    seen: list[Any] = []
    items, process = start(moment)
    reader, writer = os.pipe()
    killer = os.fork()
    if not killer:
        time.sleep(delay)
        os.write(writer, str(time.monotonic()).encode())
        os.kill(process.pid, signal.SIGKILL)
        os._exit(0)
    with pytest.raises(RuntimeError, match="killed by signal SIGKILL"):
        use(items, moment, seen)
    noticed = time.monotonic()
    os.waitpid(killer, 0)
    killed = float(os.read(reader, 100))
    os.close(reader)
    os.close(writer)
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
    paths = list(folder.iterdir()) if folder.is_dir() else []
    return {
        path.name for path in paths if "spdl" in path.name and not path.is_dir() and not path.name.startswith(FORGOTTEN)
    }


def kill_parent(moment: str, delay: float) -> float:
    """Kill a process that has a worker, and return the seconds until the worker was gone."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            items, process = start(moment)
            os.write(writer, str(process.pid).encode())
            use(items, moment, [])
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


def test_kills_at_all_moments() -> None:
    drawn = random.Random(7)  # noqa: S311 - nothing here is secret.
    before = segments()
    took: dict[str, list[float]] = {}
    for number in range(KILLS):
        moment = list(MOMENTS)[number // 2 % len(MOMENTS)]
        victim = ("worker", "parent")[number % 2]
        seconds = (kill_worker if victim == "worker" else kill_parent)(moment, drawn.random() * 0.1)
        assert seconds < SOON
        took.setdefault(f"{victim}, {moment}", []).append(seconds)
    assert not segments() - before
    longest = {name: round(max(each), 4) for name, each in took.items()}
    record("out_of_process_kills", kills=KILLS, longest_seconds_until_noticed=longest)
