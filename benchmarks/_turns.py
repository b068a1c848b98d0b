"""Contenders take turns, each turn in a process of its own that may run another interpreter; medians count."""

from __future__ import annotations

import json
import subprocess
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Figures = dict[str, float]


class Job(NamedTuple):
    """One contender's work.

    Attributes:
        interpreter: The command that runs Python where the contender is installed.
        program: What it runs; it prints its figures as JSON.
        arguments: The arguments of the program, which are passed as JSON.
    """

    interpreter: Sequence[str]
    program: Path
    arguments: Mapping[str, Any]


def take_turns(jobs: Mapping[Any, Job], rounds: int) -> tuple[dict[Any, Figures], dict[Any, str]]:
    """Run all jobs so many times, in turns.

    Returns:
        The medians of the figures by job, and the last words of those that failed, which have no more turns.
    """
    found: dict[Any, list[Figures]] = {key: [] for key in jobs}
    failed: dict[Any, str] = {}
    for number in range(rounds):
        for key, job in jobs.items():
            if key in failed:
                continue
            command = [*job.interpreter, str(job.program), json.dumps(job.arguments)]
            try:
                done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
            except subprocess.TimeoutExpired:
                failed[key] = "it took longer than 300 s"
                continue
            if done.returncode:
                failed[key] = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            else:
                found[key].append(json.loads(done.stdout.splitlines()[-1]))
        print(f"round {number + 1} of {rounds} is done", flush=True)
    medians = {
        key: {name: median(each[name] for each in figures) for name in figures[0]}
        for key, figures in found.items()
        if figures and key not in failed
    }
    return medians, failed


def best_of_each(medians: Mapping[tuple[str, int], Figures], figure: str) -> dict[str, dict[str, float]]:
    """Return each contender's figures at the number of workers at which that figure is greatest."""
    found: dict[str, dict[str, float]] = {}
    for (name, workers), figures in medians.items():
        if name not in found or figures[figure] > found[name][figure]:
            found[name] = {"workers": workers, **figures}
    return found
