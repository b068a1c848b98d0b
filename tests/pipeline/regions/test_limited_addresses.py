"""Regions in a process that may map only so much memory, as under ``ulimit -v``."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="the limit does not hold here"),
]

PROGRAM = """
import operator
import resource

import numpy as np

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    arrays = [np.full(1 << 20, number, np.uint8) for number in range(40)]
    stages = PipelineBuilder().add_source(arrays).to(ProcessPoolExecutorConfig(4)).pipe(operator.neg, concurrency=8)
    pipeline = stages.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        print(sorted(int(array[-1]) for array in pipeline))
"""


def test_workers_share_what_may_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{sorted(-number % 256 for number in range(40))}\n"
