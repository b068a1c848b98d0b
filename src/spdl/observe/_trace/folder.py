"""Records a trace of each process of a program, as `spdl record` has asked for."""

from __future__ import annotations

import atexit
import logging
import os
import time
from functools import cache
from pathlib import Path

from spdl._files import replaced
from spdl._processes import TRACES, before_children_are_awaited
from spdl.pipeline._declare import defaults
from spdl.pipeline._report.recorder import MAX_EVENTS, Recorder

from .write_trace import write_trace

__all__ = ["SUFFIX", "record_into_folder"]

_LOG = logging.getLogger("spdl.observe")

SUFFIX = ".json"


def record_into_folder(folder: str) -> None:
    """Record the pipelines that are built from now on, and write the trace into a folder when this process ends."""
    recorder = Recorder(MAX_EVENTS)
    if not defaults.claim_recorder(recorder):
        return
    process = os.getpid()
    _forget_in_children()

    def finish() -> None:
        if os.getpid() != process or recorder.closed:
            return
        recorder.close()
        # Numbers of processes are given again.
        whole = Path(folder, f"{process}-{time.time_ns()}{SUFFIX}")
        try:
            with replaced(whole) as file:
                write_trace(recorder, file)
        except OSError as error:
            _LOG.warning("The trace of process %s could not be written: %s", process, error)

    # What was registered later, such as the end of pipelines, comes first.
    atexit.register(finish)
    before_children_are_awaited(finish, TRACES)


@cache
def _forget_in_children() -> None:
    os.register_at_fork(after_in_child=defaults.release_recorder)
