"""Test that a training program that is killed again and again trains on each item of each epoch once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.pipeline import killed_training

ROOT = Path(__file__).parents[2]

# `SPDL_TEST_KILLS=200` makes a long run of it.
KILLS = int(os.environ.get("SPDL_TEST_KILLS", "6"))


def _train(folder: Path, *batches: int) -> int:
    command = [sys.executable, "-m", "tests.pipeline.killed_training", str(folder), *map(str, batches)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _check(folder: Path) -> None:
    epochs: list[list[int]] = [[] for _ in range(killed_training.EPOCHS)]
    for line in (folder / "log").read_text().splitlines():
        epoch, item = map(int, line.split())
        epochs[epoch].append(item)
    assert [sorted(items) for items in epochs] == [killed_training.expected()] * killed_training.EPOCHS


def test_state_of_a_killed_program_loses_and_repeats_nothing(tmp_path: Path) -> None:
    # Before the first checkpoint, right after one, and right before one.
    for batches in (1, 9, 150, 141):
        assert _train(tmp_path, batches) == -signal.SIGKILL
    assert _train(tmp_path) == 0
    _check(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_item_of_each_epoch_is_trained_on_once(tmp_path: Path) -> None:
    random_number = random.Random(KILLS)  # noqa: S311 - no secret.
    kills = round_number = 0
    while kills < KILLS:
        folder = tmp_path / str(round_number)
        folder.mkdir()
        round_number += 1
        while not (folder / "done").exists():
            process = subprocess.Popen([sys.executable, "-m", "tests.pipeline.killed_training", str(folder)], cwd=ROOT)
            seconds = random_number.uniform(0.15, 1.0)
            # A busy machine may need longer than that to start it, every time.
            if kills < KILLS:
                _wait(process, seconds)
            if kills < KILLS and process.poll() is None:
                process.kill()
                kills += 1
            status = process.wait()
            assert status in (0, -9), f"the program has ended with {status}"
        _check(folder)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
