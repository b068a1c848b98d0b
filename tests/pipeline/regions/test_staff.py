"""The ends of pipelines with regions: prompt, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

TWO = ProcessPoolExecutorConfig(2)


def region(op: Any, items: Any = range(1000), **source: Any) -> Pipeline[Any]:
    builder = PipelineBuilder().add_source(items, **source).to(TWO).pipe(op).to(MAIN_PROCESS).add_sink()
    return builder.build(num_threads=1)


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def test_stopping_in_the_middle() -> None:
    pipeline = region(ops.nap)
    with pipeline.auto_stop():
        for _ in range(10):
            pipeline.get_item(timeout=60)
        begin = time.monotonic()
    assert time.monotonic() - begin < 20


def test_stopping_does_not_wait_for_ops_that_take_long() -> None:
    pipeline = region(ops.long_nap)
    pipeline.start()
    assert wait_until(lambda: pipeline.statistics().stages[0].num_emitted > 0, 60)
    begin = time.monotonic()
    pipeline.stop()
    assert time.monotonic() - begin < 30


def test_stopping_at_once() -> None:
    pipeline = region(ops.same)
    pipeline.start()
    pipeline.stop()


def test_a_full_sink_holds_the_workers() -> None:
    taken: list[int] = []

    def source() -> Any:
        for x in range(100_000):
            taken.append(x)
            yield x

    pipeline = region(ops.same, source())
    with pipeline.auto_stop():
        pipeline.get_item(timeout=60)
        time.sleep(0.5)
        assert len(taken) < 100_000


def test_pipelines_that_nobody_holds() -> None:
    before = children()
    pipeline = region(ops.nap, range(10), continuous=True)
    pipeline.get_item(timeout=60)
    started = children() - before
    assert started
    del pipeline
    gc.collect()
    # The fork server stays.
    assert wait_until(lambda: len(children() - before) <= 2, 60)


def test_a_start_that_fails_leaves_no_process() -> None:
    before = children()
    builder = PipelineBuilder().add_source(range(9)).to(TWO).pipe(ops.same).to(TWO).pipe(lambda x: x).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=1)
    with pytest.raises(TypeError, match="cannot be sent"):
        pipeline.start()
    pipeline.stop()
    assert wait_until(lambda: len(children() - before) <= 2, 60)


def test_workers_that_do_not_end_are_awaited_together() -> None:
    workers = ProcessPoolExecutorConfig(6)
    builder = PipelineBuilder().add_source(range(10**6)).to(workers).pipe(ops.pid).to(MAIN_PROCESS)
    with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        stopped: set[int] = set()
        while len(stopped) < 6:
            stopped.add(pipeline.get_item(timeout=60))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        pipeline.stop()
        # One after the other, they would have had three seconds each.
        assert time.monotonic() - begin < 16


EXITS = """
import itertools
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops

if __name__ == "__main__":
    # Of a pipeline without processes, multiprocessing is none of its business.
    PipelineBuilder().add_source([1]).pipe(str).add_sink().build().get_item(timeout=60)
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = PipelineBuilder().add_source(itertools.count()).to(workers).pipe(ops.nap).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=1)
    pipeline.get_item(timeout=60)
"""


def test_no_worker_takes_the_place_of_another_when_the_program_ends(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(EXITS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, path], check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")


PROGRAM = """
import sys, time
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops

if __name__ == "__main__":
    workers = ProcessPoolExecutorConfig(2, mp_context=sys.argv[2])
    builder = PipelineBuilder().add_source(range(10**6)).to(workers).pipe(ops.pid).to(MAIN_PROCESS).add_sink()
    pipeline = builder.build(num_threads=1)
    pids = {pipeline.get_item(timeout=60) for _ in range(200)}
    print(*pids, flush=True)
    if sys.argv[1] == "wait":
        time.sleep(60)
    elif sys.argv[1] == "raise":
        raise ValueError("enough")
"""


@pytest.mark.parametrize(
    ("how", "method"), [*((how, "forkserver") for how in ("exit", "raise", "kill", "interrupt")), ("kill", "spawn")]
)
def test_workers_end_with_their_program(how: str, method: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    what = "wait" if how in ("kill", "interrupt") else how
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, path, what, method],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    ) as program:
        assert program.stdout is not None
        pids = [int(pid) for pid in program.stdout.readline().split()]
        if what == "wait":
            program.send_signal(signal.SIGKILL if how == "kill" else signal.SIGINT)
        status = program.wait(60)
        assert program.stderr is not None
        errors = program.stderr.read().decode()
    assert pids
    assert status == {"exit": 0, "raise": 1, "kill": -signal.SIGKILL, "interrupt": -signal.SIGINT}[how], errors
    assert wait_until(lambda: not any(psutil.pid_exists(pid) and _runs(pid) for pid in pids), 30)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
