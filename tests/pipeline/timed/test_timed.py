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

pytestmark = pytest.mark.timeout(300)

for module in MODULES:
    import_module(f"tests.pipeline.timed.{module}")


@pytest.fixture(scope="module")
def wrong() -> dict[str, list[str]]:
    """Run all programs, in a process whose clocks and threads are simulated. Return what went wrong in each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.timed"],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_simulated_time(name: str, wrong: dict[str, list[str]]) -> None:
    assert "".join(wrong[name]) == ""
