"""Random programs on the real engine, under random schedules, against a model made from the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("greenlet")

ROOT = Path(__file__).parents[2]

# Programs that once went wrong, each in a file of its own.
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))

# Those that went wrong where they were cut and gone on with.
FOUND_RESUMED = sorted((Path(__file__).parent / "found_resumed").glob("*.json"))

# The bugs of tests/mutation that are looked for here: one of each kind. `python -m tests.simulation.mutants` has all.
PLANTED = [
    "an item put into a queue does not count as waiting",
    "the event loop is not woken for an item",
    # Nothing comes of these but that something waits in vain, or is said to have waited.
    "no call is submitted to a pool while one runs",
    "a slot that is free again is booked nowhere",
]


def simulate(*options: str, hash_seed: int = 0) -> subprocess.CompletedProcess[str]:
    # A process of its own: the engine is imported with simulated clocks and threads.
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--no-shrink", *options],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )


@pytest.mark.timeout(300)
def test_nothing_goes_wrong() -> None:
    done = simulate("--runs=500", "--seed=1000000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_nothing_goes_wrong_where_runs_are_cut_and_resumed() -> None:
    done = simulate("--resume", "--runs=300", "--seed=2000000")
    assert done.returncode == 0, done.stdout + done.stderr


def test_runs_repeat_in_another_process() -> None:
    digests = [
        re.search(r"digest (\w+), \d+ steps", simulate("--runs=40", "--seed=5", hash_seed=seed).stdout)
        for seed in (1, 2)
    ]
    assert digests[0] is not None
    assert digests[1] is not None
    assert digests[0][1] == digests[1][1]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str) -> None:
    done = simulate("--runs=1000", "--seed=1", f"--mutant={bug}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^seed \d+: \* ", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.parametrize("program", FOUND, ids=[path.stem for path in FOUND])
def test_what_was_found_stays_mended(program: Path) -> None:
    done = simulate(f"--program={program}", "--runs=60")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", FOUND_RESUMED, ids=[path.stem for path in FOUND_RESUMED])
def test_what_was_found_in_resumed_runs_stays_mended(program: Path) -> None:
    done = simulate(f"--program={program}", "--runs=100", "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
