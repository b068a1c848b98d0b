"""A process that takes a dead one's place: it is there only when the input has ended, or cannot be started at all."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
import traceback
from multiprocessing.process import BaseProcess
from threading import Event
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

# How long the pipeline may take to notice the end of its input. Only whether a test finds a fault depends on it.
NOTICE_SECONDS = 1.0


def number_of(process: BaseProcess) -> int | None:
    """Return a worker's number in its region; None if the process is none."""
    return int(process.name.removeprefix("spdl_region_")) if process.name.startswith("spdl_region_") else None


def test_it_ends_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starting = Event()
    start = BaseProcess.start
    started: list[psutil.Process] = []

    def start_late(process: BaseProcess) -> None:
        number = number_of(process)
        if number is None or number < 2:
            start(process)
            return
        starting.set()
        time.sleep(NOTICE_SECONDS)
        start(process)
        started.append(psutil.Process(process.pid))

    def source() -> Iterator[int]:
        yield from range(2)
        assert starting.wait(60)

    monkeypatch.setattr(BaseProcess, "start", start_late)
    builder = PipelineBuilder[int, int]().add_source(source())
    builder = builder.to(ProcessPoolExecutorConfig(2, mp_context="spawn", on_death="rerun"))
    builder = builder.pipe(ops.DieOnce(str(tmp_path / "died"), 0)).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build(num_threads=1)
    before = set(threading.enumerate())
    with pipeline.auto_stop():
        # The other process runs the item again.
        assert sorted(pipeline.get_iterator(timeout=60)) == [0, 1]
        assert wait_until(lambda: started, 60)
        assert wait_until(lambda: not _new_threads(before), 60), _where(_new_threads(before))
        assert wait_until(lambda: not any(map(_runs, started)), 60)


def test_the_pipeline_says_so_if_none_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = BaseProcess.start

    def refuse(process: BaseProcess) -> None:
        if number_of(process):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        start(process)

    monkeypatch.setattr(BaseProcess, "start", refuse)
    builder = PipelineBuilder[int, int]().add_source(range(9)).to(ProcessPoolExecutorConfig(1, on_death="rerun"))
    builder = builder.pipe(ops.DieOnce(str(tmp_path / "died"), 0)).to(MAIN_PROCESS)
    with pytest.raises(PipelineFailure) as caught, builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        list(pipeline.get_iterator(timeout=60))
    (error,) = caught.value.exceptions
    assert "region(DieOnce) has died, and no other could be started: OSError" in str(error)


def _new_threads(before: set[threading.Thread]) -> set[threading.Thread]:
    # Others' threads may begin at any time.
    return {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("spdl")}


def _where(threads: set[threading.Thread]) -> list[str]:
    frames = sys._current_frames()
    return [line for it in threads for line in [it.name, *traceback.format_stack(frames.get(it.ident or 0))]]


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
