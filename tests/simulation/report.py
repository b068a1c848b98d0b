"""Tells of a finding: what went wrong, in the smallest program that still shows it, and how to run it again."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

from tests.simulation.explore import simulate
from tests.simulation.programs.shrink import shrink

if TYPE_CHECKING:
    from tests.simulation.explore import Outcome
    from tests.simulation.programs.program import Program

__all__ = ["report"]

# Under so many schedules a smaller program is tried before it counts as right.
_SCHEDULES = 12

# For so long smaller programs are looked for, in seconds.
_PATIENCE = 60


def report(
    program: Program, seed: int, outcome: Outcome, *, shrinks: bool, schedule: bool, resume: bool = False
) -> None:
    """Print a finding."""
    _say(f"seed {seed}: {_lines(outcome)}")
    if shrinks:
        kind = _kind(outcome)
        seeds: dict[str, int] = {program.to_json(): seed}

        deadline = time.monotonic() + _PATIENCE

        def fails(smaller: Program) -> bool:
            if time.monotonic() > deadline:
                return False
            # The schedule that showed it goes first; most often a smaller program needs another one.
            for other in (seed, *range(1_000_000, 1_000_000 + _SCHEDULES)):
                found = simulate(smaller, other, resume=resume)
                if found.findings and _kind(found) == kind:
                    seeds[smaller.to_json()] = other
                    return True
            return False

        program = shrink(program, fails)
        seed = seeds[program.to_json()]
        outcome = simulate(program, seed, record=True, resume=resume)
        _say(f"in the smallest program found: {_lines(outcome)}")
    elif schedule:
        outcome = simulate(program, seed, record=True, resume=resume)
    if schedule:
        _say("\n".join(outcome.schedule[-400:]))
    _say(
        f"schedule {seed}, digest {outcome.digest:x}, {outcome.decisions} decisions; the program:\n{program.to_json()}"
    )
    _say(f"To replay it, write the program into a file: --program FILE --seed {seed} --runs 1 --no-shrink --schedule")


def _kind(outcome: Outcome) -> str:
    """Return the part that tells kinds of findings apart: the first words; for hangs, where the consumer waits."""
    return re.sub(r"\d+", "", " ".join(outcome.findings[0].split()[:8]))


def _lines(outcome: Outcome) -> str:
    return "\n".join(f"* {finding}" for finding in outcome.findings[:5])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
