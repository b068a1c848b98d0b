"""Measurements in a separate process are reported however the process ends, and nothing of the process is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pytest

from _program.fresh_memory import measure_fresh_memory
from _program.isolated import ChildError, measure_in_turns, run_in_process

if TYPE_CHECKING:
    from pathlib import Path

# They take a second or two, and many times that on a busy machine.
pytestmark = pytest.mark.timeout(180)


def add(*, a: int, b: int) -> int:
    return a + b


def fail() -> None:
    raise LookupError("no such photo")


def die() -> None:
    os._exit(3)


def leave_a_child() -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


def burn(*, seconds: float) -> None:
    deadline = time.process_time() + seconds
    while time.process_time() < deadline:
        pass


def hold(*, megabytes: int, seconds: float) -> int:
    block = np.ones(megabytes << 20, np.uint8)
    time.sleep(seconds)
    return int(block[0])


def note_turn(*, file: Path, name: str, value: float) -> dict[str, float]:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(name)
    return {"value": value, "pid": os.getpid()}


def allocate(*, megabytes: int) -> float:
    return measure_fresh_memory(lambda: np.ones(megabytes * 1_000_000, np.uint8), 3)


def test_results_come_back() -> None:
    assert run_in_process(add, a=1, b=2).result == 3


def test_failures_come_back_with_their_traceback() -> None:
    with pytest.raises(ChildError, match=r"fail failed in its process:(.|\n)*LookupError: no such photo"):
        run_in_process(fail)


def test_a_death_is_told() -> None:
    with pytest.raises(ChildError, match="die died in its process, status 3"):
        run_in_process(die)


def test_processes_left_behind_are_ended() -> None:
    pid = run_in_process(leave_a_child).result
    deadline = time.monotonic() + 60
    # It may end at any time.
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_cpu_time_is_that_of_the_function() -> None:
    # What beginning and ending take counts, too.
    assert 0.3 <= run_in_process(burn, seconds=0.3).cpu_seconds < 2


def test_memory_is_that_of_the_process() -> None:
    def difference(seconds: float) -> float:
        small, large = (
            run_in_process(hold, megabytes=megabytes, seconds=seconds).peak_mib or 0 for megabytes in (1, 201)
        )
        return large - small

    # Whoever weighs the process may come late on a busy machine.
    seconds = iter((0.5, 2.0, 8.0, 32.0))
    found = difference(next(seconds))
    while found < 150 and (longer := next(seconds, None)):
        found = difference(longer)
    assert 150 < found < 250


def test_all_have_their_turn_in_a_round_and_medians_count(tmp_path: Path) -> None:
    file = tmp_path / "turns"
    cases = [{"file": file, "name": name, "value": value} for name, value in (("a", 1.0), ("b", 2.0))]
    figures = measure_in_turns(note_turn, cases, 3)
    assert file.read_text() == "ababab"
    assert [each["value"] for each in figures] == [1.0, 2.0]
    assert figures[0]["pid"] != figures[1]["pid"]
    assert all(each["cpu_seconds"] >= 0 for each in figures)


@pytest.mark.parametrize("megabytes", [1, 20])
def test_fresh_memory_is_what_was_allocated(megabytes: int) -> None:
    assert run_in_process(allocate, megabytes=megabytes).result == pytest.approx(megabytes * 1e6, rel=0.05)
