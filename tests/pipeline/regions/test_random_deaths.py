"""Random programs with regions whose processes die, beside what the documentation says must come out of them.

A few are drawn here. `SPDL_TEST_DEATHS=500` draws as many.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = int(os.environ.get("SPDL_TEST_DEATHS", "10"))


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="it looks for what is left in /proc")
def test_programs_whose_processes_die() -> None:
    program = f"from tests.pipeline.regions.run_random_deaths import main; main(first=0, count={PROGRAMS})"
    command = [sys.executable, "-c", program]
    # It finds the tests in its folder.
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
