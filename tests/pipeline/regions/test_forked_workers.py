"""Workers that are forked: from a process that has no threads of the pipeline yet, in whichever order regions come."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(120)

PROGRAM = """
import operator
import warnings

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig, ThreadPoolExecutorConfig

warnings.simplefilter("error")
pipeline = (
    PipelineBuilder()
    .add_source(range(10))
    .to(ThreadPoolExecutorConfig(2))
    .pipe(operator.neg, output_order="input")
    .to(ProcessPoolExecutorConfig(1, mp_context="fork"))
    .pipe(operator.neg, output_order="input")
    .to(MAIN_PROCESS)
    .add_sink()
    .build(num_threads=1)
)
with pipeline.auto_stop():
    print(list(pipeline))
"""


def test_processes_are_forked_before_the_threads_of_another_region_begin() -> None:
    # In a process of its own: this one may have threads of other tests.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{list(range(10))}\n"
