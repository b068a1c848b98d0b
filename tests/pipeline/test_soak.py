"""Test a pipeline that runs for long: the soak benchmark with fewer items than its million."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.timeout(300)
def test_nothing_grows_nothing_is_lost(tmp_path: Path) -> None:
    result = tmp_path / "soak.json"
    command = [sys.executable, str(SOAK), "--items", "6000", "--json", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    # The script checks memory, the engine's containers, the items of each epoch, and the items in flight at the end.
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(result.read_text())
    assert seen["exact"]
    assert seen["in_flight_at_the_end"] == 0
    # Every kind of loss took place: one in 1000 fails, one in 500 more is retried, one in 100 is dropped.
    assert seen["failed"] == 6
    assert seen["retried"] >= 6 + 12
    assert seen["dropped"] >= 60
    assert {"Lineage.removable", "Quarantine._items", "EventLoopThread._tasks"} <= set(seen["largest_containers"])
