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


# Of what the processes share, each maps 64 MiB for each way then: less than one of the items has, and than all have
# that are kept.
TIGHT = """
import resource
import sys
import time

import numpy as np

from spdl.pipeline import PipelineBuilder, shared_storage
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig


def make(number):
    return np.full((100 if number == 7 else 2) << 20, number, np.uint8)


def make_in_storage(number):
    array = np.frombuffer(shared_storage(2 << 20), np.uint8)
    array[:] = number
    return array


def check(array):
    assert array.flags.writeable
    assert (array == array[0]).all()
    array[-1] = array[0]
    return array


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
    for keeps in (False, True):
        stages = PipelineBuilder().add_source(range(60))
        if sys.argv[1] == "arguments":
            stages = stages.pipe(make)
        stages = stages.to(ProcessPoolExecutorConfig(1))
        stages = stages.pipe({"arguments": check, "results": make, "storage": make_in_storage}[sys.argv[1]])
        pipeline = stages.to(MAIN_PROCESS).add_sink().build(num_threads=1)
        numbers = []
        kept = []
        with pipeline.auto_stop():
            for array in pipeline.get_iterator(timeout=60):
                if keeps:
                    kept.append(array)
                else:
                    time.sleep(0.01)
                numbers.append(int(check(array)[-1]))
        assert [int(array[0]) for array in kept] == [numbers, []][not keeps]
        print(sorted(numbers))
        del array, pipeline
"""


@pytest.mark.parametrize("what", ["arguments", "results", "storage"])
def test_what_is_shared_may_be_full_before_a_slow_consumer_and_one_that_keeps_all(what: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(TIGHT, encoding="utf-8")
    done = subprocess.run([sys.executable, path, what], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{sorted(range(60))}\n" * 2


def test_workers_share_what_may_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{sorted(-number % 256 for number in range(40))}\n"
