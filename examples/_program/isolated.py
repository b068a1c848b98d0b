"""Measuring a function in a process of its own, of which nothing is left afterwards."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl.cli._common.measure import cpu_seconds, session_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection

T = TypeVar("T")

PRELOADED = ("torch", "torch._dynamo", "spdl.io._native", "spdl.io", "spdl.dataloader")
"""What takes long to import is imported once, by the process that the others are forked from."""

WEIGHING_PAUSE = 0.2
"""Seconds between two looks at the memory; looking is work for the system."""

PATIENCE = 10.0
"""Seconds that a process has for its end once it has answered."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What a function returned, and what it cost.

    Attributes:
        result: What it returned.
        cpu_seconds: Processor time in it and in the processes it started. Imports are not in it.
        peak_mib: The most that its processes held together, pages that several share divided among them. It is looked
            at five times a second. None where the system does not tell.
    """

    result: T
    cpu_seconds: float
    peak_mib: float | None


class ChildError(RuntimeError):
    """Raised when a function fails in its process; the message is its traceback."""


def run_in_process(function: Callable[..., T], /, **arguments: Any) -> Outcome[T]:
    """Call a function in a fresh process and wait for it.

    The process is a session of its own. Whatever of it is still there at the end is killed, also when the caller is
    interrupted.

    Args:
        function: A function of a module's top level.
        **arguments: Its arguments; like its result, they are pickled.

    Raises:
        ChildError: If it raises, or its process dies.
    """
    # Forked from a process without threads: a fork of this one might copy locks that nobody would release.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        with ours:
            peak = _watch(process.pid or 0, ours)
            try:
                result, cpu, complaint = ours.recv()
            except EOFError:
                process.join()
                raise ChildError(f"{function.__name__} died in its process, status {process.exitcode}") from None
            process.join(PATIENCE)
    finally:
        _end(process)
    if complaint:
        raise ChildError(f"{function.__name__} failed in its process:\n{complaint}")
    return Outcome(result, cpu, peak)


def measure_in_turns(
    function: Callable[..., Mapping[str, float]], cases: Sequence[Mapping[str, Any]], rounds: int
) -> list[dict[str, float]]:
    """Measure a function with several sets of arguments, each call in a process of its own.

    All cases have their turn in a round before the next round begins, so that what else the machine does meets all
    alike.

    Args:
        function: Returns figures by name.
        cases: The arguments of each case.
        rounds: How many turns each case has.

    Returns:
        For each case the medians of its figures, with ``cpu_seconds`` and, where the system tells, ``peak_mib`` added.
    """
    found: list[list[dict[str, float]]] = [[] for _ in cases]
    for _ in range(rounds):
        for figures, case in zip(found, cases, strict=True):
            outcome = run_in_process(function, **case)
            memory = {} if outcome.peak_mib is None else {"peak_mib": outcome.peak_mib}
            figures.append({**outcome.result, "cpu_seconds": outcome.cpu_seconds, **memory})
    return [{key: median(it[key] for it in each if key in it) for key in each[0]} for each in found]


def _work(pipe: Connection, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    os.setsid()
    # A pool's workers are then children of this process: they are measured and ended with it.
    multiprocessing.set_start_method("fork", force=True)
    # Which number of workers is too many is what the programs find out.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    # torchdata's own call of PyTorch.
    warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
    before = cpu_seconds()
    result, complaint = None, ""
    try:
        result = function(**arguments)
    except BaseException:  # noqa: BLE001 - it is told to whoever waits.
        complaint = traceback.format_exc()
    # Worker processes count once they were waited for, which loaders do when they are dropped.
    gc.collect()
    pipe.send((result, cpu_seconds() - before, complaint))
    pipe.close()


def _watch(session: int, pipe: Connection) -> float | None:
    """Look at the memory until there is an answer."""
    peak = None
    ended = threading.Event()
    while not ended.is_set():
        held = session_memory(session)
        if held is not None:
            peak = max(peak or 0.0, held / 2**20)
        if pipe.poll(WEIGHING_PAUSE):
            ended.set()
    return peak


def _end(process: multiprocessing.process.BaseProcess) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    # It may not have got as far as being a group of its own.
    process.kill()
    process.join()
    process.close()
