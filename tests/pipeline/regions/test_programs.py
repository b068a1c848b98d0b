"""Random programs with regions of processes and threads, beside plain loops over the same items.

A few are drawn here. `SPDL_TEST_PROGRAMS=500` draws as many.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.regions.programs import Program

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = int(os.environ.get("SPDL_TEST_PROGRAMS", "12"))

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:The source of the pipeline"),
    pytest.mark.filterwarnings("ignore:The pipeline has been read to its end"),
]


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program(seed: int, processes: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of the test.
    # Some may not be declared: to keep the order and to gather exclude each other.
    for attempt in range(20):
        program = Program(seed + 100_000 * attempt, str(tmp_path), processes=processes)
        if program.may_be_declared():
            program.check()
            return
    pytest.fail("no program may be declared")
