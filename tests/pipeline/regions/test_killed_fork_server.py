"""Regions whose processes come of multiprocessing's fork server, when that is killed, or starts none."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

pytestmark = pytest.mark.timeout(120)

PROGRAM = """
import os, signal, sys
from multiprocessing import forkserver

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops

if __name__ == "__main__":
    workers = ProcessPoolExecutorConfig(2, mp_context="forkserver", on_death=sys.argv[1])
    builder = PipelineBuilder().add_source(range(400)).to(workers).pipe(ops.nap).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=1)
    taken = []
    try:
        with pipeline.auto_stop():
            for item in pipeline.get_iterator(timeout=60):
                if not taken:
                    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
                taken.append(item)
    except PipelineFailure as failure:
        print(*failure.exceptions)
    else:
        print(sorted(taken) == list(range(400)))
"""


@pytest.mark.parametrize(("on_death", "expected"), [("rerun", "True"), ("fail", "fork server was killed")])
def test_its_processes_are_taken_for_dead(on_death: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    # Processes that went on would keep what they print to open.
    done = subprocess.run(
        [sys.executable, path, on_death], capture_output=True, text=True, timeout=100, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def region() -> Any:
    workers = ProcessPoolExecutorConfig(1, mp_context="forkserver")
    builder = PipelineBuilder().add_source(range(9)).to(workers).pipe(ops.same).to(MAIN_PROCESS)
    return builder.add_sink().build(num_threads=1)


@pytest.mark.parametrize("error", [ConnectionRefusedError, BrokenPipeError, EOFError])
def test_one_that_is_about_to_end_is_asked_again(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    connect = forkserver.connect_to_new_process
    refused = 0

    def connect_late(descriptors: Any) -> Any:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise error
        return connect(descriptors)

    monkeypatch.setattr(forkserver, "connect_to_new_process", connect_late)
    with region().auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=60)) == list(range(9))
    assert refused == 2


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (EOFError, r"region\(same\) cannot be started: .*fork server.*spawn"),
        (ChildProcessError, "the fork server has ended, and something else .*spawn"),
    ],
)
def test_one_that_starts_none_is_told_of(error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        raise error

    monkeypatch.setattr(forkserver, "connect_to_new_process", refuse)
    pipeline = region()
    with pytest.raises(RuntimeError, match=says):
        pipeline.start()
    pipeline.stop()
