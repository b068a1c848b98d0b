"""Test what is measured, and what happens after a time, in simulated time: no machine is too busy for it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("greenlet")

from tests.pipeline.timed.__main__ import MODULES
from tests.pipeline.timed.programs import PROGRAMS

# What went wrong with each program of each module, in each of its runs.
Wrong = dict[str, dict[str, list[str]]]

pytestmark = pytest.mark.timeout(300)

for module in MODULES:
    import_module(f"tests.pipeline.timed.{module}")


@pytest.fixture(scope="module")
def wrong() -> Wrong:
    """Run all programs, in a process whose clocks and threads are simulated. Return what went wrong in each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.timed"],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    found: Wrong = json.loads(done.stdout)
    return found


def programs_of(module: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", PROGRAMS[module])


def check(wrong: Wrong, module: str, name: str) -> None:
    assert "".join(wrong[module][name]) == ""


@programs_of("executors")
def test_executors_get_calls(wrong: Wrong, name: str) -> None:
    check(wrong, "executors", name)


@programs_of("graphs")
def test_merge_and_workers_take_turns(wrong: Wrong, name: str) -> None:
    check(wrong, "graphs", name)


@programs_of("hooks")
def test_task_stats_hook_measures(wrong: Wrong, name: str) -> None:
    check(wrong, "hooks", name)


@programs_of("limits")
def test_bottleneck_is(wrong: Wrong, name: str) -> None:
    check(wrong, "limits", name)


@programs_of("queues")
def test_queue_class(wrong: Wrong, name: str) -> None:
    check(wrong, "queues", name)


@programs_of("reports")
def test_report_lines_of(wrong: Wrong, name: str) -> None:
    check(wrong, "reports", name)


@programs_of("statistics")
def test_statistics_say(wrong: Wrong, name: str) -> None:
    check(wrong, "statistics", name)


@programs_of("timeouts")
def test_timeout(wrong: Wrong, name: str) -> None:
    check(wrong, "timeouts", name)
