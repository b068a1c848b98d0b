"""Let contenders take turns, each turn in a process of its own with its own interpreter, and take the medians."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from statistics import median
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Figures = dict[str, float]
Turn = TypeVar("Turn")

TOO_LONG = 300
"""Seconds after which a contender's work is abandoned."""


def track(turns: Sequence[Turn], what: str) -> Iterator[Turn]:
    """Yield the turns, and show on standard error which one it is."""
    for number, turn in enumerate(turns, start=1):
        print(f"{what}: turn {number} of {len(turns)}", file=sys.stderr, flush=True)
        yield turn


class Job(NamedTuple):
    """One contender's work.

    Attributes:
        interpreter: The command that runs Python where the contender is installed.
        program: The program to run. It prints its figures as JSON.
        arguments: The arguments of the program, passed as JSON.
    """

    interpreter: Sequence[str]
    program: Path
    arguments: Mapping[str, Any]


class JobFailedError(Exception):
    """Raised when a contender's work fails.

    Args:
        reason: The message: the reason in one line.
        said: Everything that it wrote to its standard error.
    """

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


def is_ours(name: str) -> bool:
    """Return whether a contender is this package, in any variant."""
    return "spdl-turbo" in name


def why_left_out(name: str, failure: JobFailedError) -> str:
    """Return why a contender has no more turns. The output of one of ours is printed in full, for we have to fix it."""
    if is_ours(name) and failure.said:
        print(f"{name}:\n{failure.said}", file=sys.stderr)
    return str(failure)


def run_job(job: Job) -> dict[str, Any]:
    """Do one contender's work, and return the figures that it printed.

    Raises:
        JobFailedError: The work failed, took too long or printed something else. Its children have ended, too.
    """
    command = [*job.interpreter, str(job.program), json.dumps(job.arguments)]
    late = False
    # Files rather than pipes, since children that live on would keep pipes open.
    with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as err:
        # The process and its children form a group that can be ended as one.
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(TOO_LONG)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            end_group(process)
            process.wait()
        out.seek(0)
        err.seek(0)
        printed, said = out.read(), err.read()
    if late:
        raise JobFailedError(f"it took longer than {TOO_LONG} s", said)
    if process.returncode:
        raise JobFailedError(last_output(said, process.returncode), said)
    last = (printed.strip().splitlines() or [""])[-1]
    try:
        figures: dict[str, Any] = json.loads(last)
    except ValueError:
        raise JobFailedError(f"it printed no figures at its end, but {last!r}", said) from None
    return figures


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group of its own, and the whole group. Call it when the process ends at the latest.

    While other members of the group live, no new process gets its number. Once none does, one may, some time later.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def last_output(said: str, status: int) -> str:
    """Return why a process failed: the last line that it wrote, or else its exit status. A signal is named as well."""
    line = (said.strip().splitlines() or [f"exit status {status}"])[-1]
    return line if status >= 0 else f"it was ended by signal {-status}; its last line was: {line}"


def take_turns(jobs: Mapping[Any, Job], rounds: int) -> tuple[dict[Any, Figures], dict[Any, str]]:
    """Run all jobs a number of times, in turns.

    Returns:
        The medians of the figures by job, and the error messages of jobs that failed and had no more turns.
    """
    found: dict[Any, list[Figures]] = {key: [] for key in jobs}
    failed: dict[Any, str] = {}
    for number in range(rounds):
        for key, job in jobs.items():
            if key in failed:
                continue
            try:
                found[key].append(run_job(job))
            except JobFailedError as reason:
                failed[key] = why_left_out(key if isinstance(key, str) else ", ".join(map(str, key)), reason)
        print(f"round {number + 1} of {rounds} is done", flush=True)
    medians = {
        key: {name: median(each[name] for each in figures) for name in figures[0]}
        for key, figures in found.items()
        if figures and key not in failed
    }
    return medians, failed


def best_of_each(medians: Mapping[tuple[str, int], Figures], figure: str) -> dict[str, dict[str, float]]:
    """Return each contender's figures at the number of workers with the highest value of `figure`."""
    found: dict[str, dict[str, float]] = {}
    for (name, workers), figures in medians.items():
        if name not in found or figures[figure] > found[name][figure]:
            found[name] = {"workers": workers, **figures}
    return found
