"""A process that takes a dead one's place: it is there only when the input has ended, or cannot be started at all."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
import traceback
from threading import Event
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline._regions.worker_processes import Processes
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

# How long the pipeline may take to notice the end of its input. Only whether a test finds a fault depends on it.
NOTICE_SECONDS = 1.0


def test_it_ends_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starting = Event()
    start = Processes.start
    started: list[psutil.Process] = []

    def start_late(self: Processes, number: int) -> Any:
        if number >= 2:
            starting.set()
            time.sleep(NOTICE_SECONDS)
        before = _children()
        worker = start(self, number)
        if number >= 2:
            started.extend(_children() - before)
        return worker

    def source() -> Iterator[int]:
        yield from range(2)
        assert starting.wait(60)

    monkeypatch.setattr(Processes, "start", start_late)
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
    start = Processes.start

    def refuse(self: Processes, number: int) -> Any:
        if number:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return start(self, number)

    monkeypatch.setattr(Processes, "start", refuse)
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


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
