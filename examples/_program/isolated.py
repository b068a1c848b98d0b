"""Measure a function in a separate process that leaves nothing running."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from _program.progress import distinguished, end, tell, tell_through
from spdl.cli._common.machine import cpu_seconds, session_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection

T = TypeVar("T")

PRELOADED = ("torch", "torch._dynamo", "spdl.io._native", "spdl.io", "spdl.dataloader")
"""Modules that take long to import. They are imported once, by the process that the others are forked from."""

WEIGHING_PAUSE = 0.2
"""Seconds between two looks at the memory. Each look is work for the system."""

PATIENCE = 10.0
"""Seconds that a process has to end after its answer."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The result of a function and its cost.

    Attributes:
        result: The function's return value.
        cpu_seconds: Processor time of the function and of the processes that it started, without imports.
        peak_mib: The most memory that its processes held together; shared pages are divided among them. It is sampled
            five times a second. None if the system does not report it.
    """

    result: T
    cpu_seconds: float
    peak_mib: float | None


class ChildError(RuntimeError):
    """Raised when a function fails in its process. The message is the traceback."""


def run_in_process(function: Callable[..., T], /, **arguments: Any) -> Outcome[T]:
    """Call a function in a fresh process and wait for it.

    The process has its own session. Any part of the session that is left at the end is killed, also if the caller
    is interrupted.

    Args:
        function: A function at the top level of a module.
        **arguments: Its arguments. Like its result, they are pickled.

    Raises:
        ChildError: If the function raises, or its process dies.
    """
    # The new process is forked from one without threads. A fork of this one might copy locks that are never released.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        with ours:
            try:
                peak, (result, cpu, complaint) = _watch(process.pid or 0, ours)
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
    """Measure a function with several sets of arguments, each call in a separate process.

    In each round every case has a turn before the next round begins, so that other load on the machine affects all
    cases alike. Standard error says which case has its turn.

    Args:
        function: Returns figures by name.
        cases: The arguments of each case.
        rounds: The number of turns of each case.

    Returns:
        The medians of the figures of each case, with ``cpu_seconds`` and, if the system reports it, ``peak_mib``.
    """
    found: list[list[dict[str, float]]] = [[] for _ in cases]
    labels = distinguished(cases)
    for index in range(rounds):
        for row, (figures, case) in enumerate(zip(found, cases, strict=True)):
            tell(f"round {index + 1} of {rounds}, row {row + 1} of {len(cases)}: {labels[row]}")
            outcome = run_in_process(function, **case)
            memory = {} if outcome.peak_mib is None else {"peak_mib": outcome.peak_mib}
            figures.append({**outcome.result, "cpu_seconds": outcome.cpu_seconds, **memory})
    end()
    return [{key: median(it[key] for it in each if key in it) for key in each[0]} for each in found]


def _work(pipe: Connection, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    os.setsid()
    # A pool's workers are then children of this process, so they are measured and ended with it.
    multiprocessing.set_start_method("fork", force=True)
    # The programs find out how many workers are too many.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    # The call is made by torchdata itself.
    warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
    # Its standard error may be another one: it is forked from a server that may be older than this program's streams.
    tell_through(pipe.send)
    before = cpu_seconds()
    result, complaint = None, ""
    try:
        result = function(**arguments)
    except BaseException:  # noqa: BLE001 - it is passed on to the waiting process.
        complaint = traceback.format_exc()
    # Worker processes count once they have been waited for. Loaders do that when they are dropped.
    gc.collect()
    pipe.send((result, cpu_seconds() - before, complaint))
    pipe.close()


def _watch(session: int, pipe: Connection) -> tuple[float | None, tuple[Any, float, str]]:
    """Sample the memory and show the lines of progress until there is an answer."""
    peak = None
    while True:
        held = session_memory(session)
        if held is not None:
            peak = max(peak or 0.0, held / 2**20)
        if pipe.poll(WEIGHING_PAUSE):
            message = pipe.recv()
            if not isinstance(message, str):
                return peak, message
            tell(message)


def _end(process: multiprocessing.process.BaseProcess) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    # The process may have been stopped before it had its own group.
    process.kill()
    process.join()
    process.close()
