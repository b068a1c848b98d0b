"""Runs random programs with regions whose processes die, and judges what comes out and what is left behind.

    python -c "from tests.pipeline.regions.run_random_deaths import main; main(first=0, count=200)"

It belongs in a process of its own: it has the fork server import what the workers need, which is for a process's life.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import TYPE_CHECKING, Any

import psutil
from tests.pipeline.regions.death_oracle import Outcome, judge
from tests.pipeline.regions.random_deaths import Program, alike, payload

from spdl.pipeline import Pipeline, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

# Neither is a limit for the programs, which take a tenth of a second: they guard against waiting for ever.
HANGS_AFTER = 60
LEFT_AFTER = 30


def run(program: Program) -> None:
    """Run a program.

    Raises:
        AssertionError: If something comes out that may not.
    """
    pipeline = program.build()
    outcome = Outcome()
    killed: list[int] = []
    try:
        with killing(program, killed), pipeline.auto_stop():
            _read(program, pipeline, outcome)
    except PipelineFailure as error:
        outcome.failure = error
    outcome.killed = len(killed)
    outcome.failures = list(pipeline.failures())
    judge(program, outcome)


def _read(program: Program, pipeline: Pipeline[Any], outcome: Outcome) -> None:
    for _ in range(program.epochs):
        keys: list[tuple[int, ...]] = []
        outcome.epochs.append(keys)
        for item in pipeline:
            assert alike(item.content, payload(item.key, item.kind)), f"{item.key} was changed"
            keys.append(item.key)
            if program.reading != "all" and len(keys) == program.count // 2 + 1:
                if program.reading == "stop":
                    pipeline.stop()
                return
    outcome.complete = True


@contextmanager
def killing(program: Program, killed: list[int]) -> Iterator[None]:
    """Kill workers from outside, at random moments, and note which."""
    done = threading.Event()
    thread = threading.Thread(target=_kill, args=(program, done, killed))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _kill(program: Program, done: threading.Event, killed: list[int]) -> None:
    rng = random.Random(program.seed)  # noqa: S311 - no secret.
    while len(killed) < program.kills and not done.wait(rng.choice([0, 0.02, 0.1, 0.4])):
        at_once = program.kills - len(killed) if rng.random() < 0.2 else 1
        for pid in workers()[:at_once]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def workers() -> list[int]:
    """Return the processes below this one, without the helpers of multiprocessing."""
    helpers = {
        getattr(resource_tracker._resource_tracker, "_pid", None),
        getattr(forkserver._forkserver, "_forkserver_pid", None),
    }
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid not in helpers and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _list_all() -> set[str]:
    """Return the processes, threads and descriptors that are there."""
    gc.collect()
    found = {f"process {pid}" for pid in workers()} | {f"thread {thread.name}" for thread in threading.enumerate()}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as few descriptors as possible.
        with contextlib.suppress(FileNotFoundError):
            found.add(f"descriptor {name}: {os.readlink(f'/proc/self/fd/{name}')}")  # noqa: PTH115 - as above.
    return found


def _wait_for_the_end(before: set[str]) -> None:
    end = time.monotonic() + LEFT_AFTER
    while left := _list_all() - before:
        assert time.monotonic() < end, f"left: {sorted(left)}"
        time.sleep(0.01)


def main(first: int, count: int) -> None:
    """Run the programs of so many seeds, and exit with a status that is not 0 if something was wrong."""
    multiprocessing.set_forkserver_preload(["tests.pipeline.regions.run_random_deaths"])
    logging.disable(logging.CRITICAL)
    before: set[str] | None = None
    bad = []
    # The first one starts the fork server, which stays.
    for seed in [first, *range(first, first + count)]:
        print(f"seed {seed}", flush=True)  # noqa: T201 - of what hangs.
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                run(Program(seed, folder))
            if before is None:
                before = _list_all()
            _wait_for_the_end(before)
        except Exception as error:  # noqa: BLE001 - whatever it is.
            bad.append(seed)
            print(f"  {type(error).__name__}: {error}", flush=True)  # noqa: T201 - the finding.
    sys.exit(f"{count} programs, wrong were those of the seeds {bad}" if bad else 0)
