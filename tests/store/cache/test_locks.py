"""Locks end with their holder, whatever else lives on."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, TypeAlias

import pytest

from spdl.store._cache import locks
from spdl.store._cache.locks import holding, holding_numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

Kind: TypeAlias = "Callable[[str], AbstractContextManager[object]]"
KINDS: list[Kind] = [holding, lambda path: holding_numbers(path, [7, 3, 7])]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_take_turns(tmp_path: Path, kind: Kind) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with kind(str(tmp_path / "lock")):
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_ends_with_its_holder_though_a_child_lives_on(tmp_path: Path, kind: Kind) -> None:
    reader, writer = os.pipe()
    holder = os.fork()
    if not holder:
        with kind(str(tmp_path / "lock")):
            child = os.fork()
            if not child:
                time.sleep(60)
                os._exit(0)
            os.write(writer, b"%d " % child)
            time.sleep(60)
        os._exit(0)
    child = int(os.read(reader, 100))
    try:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        start = time.monotonic()
        with kind(str(tmp_path / "lock")):
            assert time.monotonic() - start < 20
        os.kill(child, 0)  # It is still there.
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reader)
        os.close(writer)


def test_numbers_are_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with holding_numbers(path, [1, 2]), holding_numbers(path, [3, 1 << 60]):
        entered = threading.Event()

        def enter() -> None:
            with holding_numbers(path, [2, 5]):
                entered.set()

        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.1)
    thread.join(20)
    assert entered.is_set()


def test_without_locks_of_numbers_the_whole_file_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_OPEN_FILE", None)
    test_threads_take_turns(tmp_path, KINDS[1])
