"""Workers that are forked: from a process that has no threads of the pipeline yet, in whichever order regions come."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

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


INHERITED = """
import operator
import os

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig


def run(method):
    workers = ProcessPoolExecutorConfig(1, mp_context=method)
    stages = PipelineBuilder().add_source(range(3)).to(workers).pipe(operator.neg)
    pipeline = stages.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        return sorted(pipeline)


if __name__ == "__main__":
    print(run("forkserver"), flush=True)
    if child := os.fork():
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(run(None), flush=True)
    try:
        run("forkserver")
    except (RuntimeError, PipelineFailure) as error:
        print(type(error).__name__, error)
"""


def test_a_forked_process_cannot_use_the_fork_server_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(INHERITED, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    *results, error = done.stdout.splitlines()
    assert results == ["[-2, -1, 0]"] * 2
    assert "this process was forked from one that has a fork server" in error
