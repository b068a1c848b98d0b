"""Runs programs in processes of their own, which know nothing of being watched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spdl.observe import PageError, find_pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.observe import Observation, ObservedPipeline

__all__ = ["observed", "running"]

_SECONDS = 30


@contextmanager
def running(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program given by its text, and kill it at the end of the block."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("SPDL_OBSERVE", None)
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipeline in find_pipelines(process.pid):
            pipeline.remove()


def observed(process: subprocess.Popen[bytes], until: Callable[[Observation], bool]) -> ObservedPipeline:
    """Return the pipeline of a process as soon as something holds of what its page says."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "the program has ended"
        for pipeline in find_pipelines(process.pid):
            try:
                if until(pipeline.observe()):
                    return pipeline
            except PageError:
                # It has only begun.
                continue
        time.sleep(0.01)
    raise AssertionError(f"it did not hold within {_SECONDS} s")
