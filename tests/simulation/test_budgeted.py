"""Test that random programs stay within random budgets of bytes, and neither hang nor lose anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(300)
def test_random_programs_within_random_budgets() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.budgeted", "--runs=300", "--seed=1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The budgets were small enough to matter.
    refused = re.search(r"(\d+) looks refused", done.stdout)
    assert refused is not None
    assert int(refused[1]) > 1000
