"""Runs programs in processes of their own, which know nothing of being watched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spdl.observe import PageError, find_pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from spdl.observe import Observation, ObservedPipeline
    from spdl.pipeline import Pipeline

__all__ = ["observed", "own_page", "running", "running_command", "running_script"]

_SECONDS = 60


def running(program: str, *, stdin: int | None = None) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run a program given by its text, and kill it with its children at the end of the block."""
    return _running("-c", program, stdin=stdin)


def running_script(path: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run a script, and kill it with its children at the end of the block."""
    return _running(str(path), *arguments)


def running_command(*arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run Python with these words behind it, and kill it with its children at the end of the block."""
    return _running(*arguments)


@contextmanager
def _running(*arguments: str, stdin: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("SPDL_OBSERVE", None)
    # It may log failures by the thousand. Workers that it starts are of its session, and live on without it.
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdin=stdin, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
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


def own_page(pipeline: Pipeline[Any]) -> ObservedPipeline:
    """Return the page of a pipeline of this process as soon as it says something."""
    number = pipeline._engine.pipeline_id
    deadline = time.monotonic() + _SECONDS
    while True:
        # The first worker makes it, and any of them may be the first one that writes something there.
        for page in find_pipelines(os.getpid()):
            with suppress(PageError):
                if page.head.pipeline == number:
                    page.observe()
                    return page
        assert time.monotonic() < deadline
        time.sleep(0.001)
