"""One run: a program from a seed, a schedule from a seed, and what went wrong."""

from __future__ import annotations

import traceback
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.focus import Focus, events_of
from tests.simulation.host import SimulatedHost
from tests.simulation.policies import draw_policy
from tests.simulation.programs.generate import draw
from tests.simulation.programs.program import all_pipes
from tests.simulation.programs.resumed import run_resumed
from tests.simulation.programs.run import run
from tests.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.simulation.programs.program import Program

__all__ = ["Outcome", "draw_program", "simulate"]

# The share of runs that are made again with something that happens at a place of the engine, and at how many places.
_FOCUSED, _PLACES = 0.3, 2
# The same where a Ctrl-C comes, which it does nowhere else then.
_INTERRUPTED, _INTERRUPTS = 0.8, 4
# Short programs are run again at one place after another, until all these runs have taken so many steps: about as many
# as one run of another program does.
_SERIES = 35_000


class Outcome(NamedTuple):
    """The end of a run.

    Attributes:
        findings: What went wrong; empty if nothing did.
        digest: A number that stands for the whole schedule: that of an exact replay is the same.
        steps: How many steps the run took.
        decisions: How often the scheduler decided.
        schedule: Who went on where, if that was recorded.
    """

    findings: list[str]
    digest: int
    steps: int
    decisions: int
    schedule: list[str]


def draw_program(seed: int) -> Program:
    """Return the program of a seed."""
    return draw(Random(seed))


def simulate(program: Program, seed: int, *, record: bool = False, resume: bool = False) -> Outcome:
    """Run a program under the schedule of a seed; with ``resume``, cut it and go on in new pipelines.

    Some are run again as they were, but for something that happens at a place that they came to.
    """
    resume = resume or program.resumed
    random = Random(f"focus {seed}")
    interrupted = program.consumer.reading == "interrupt"
    share, most = (_INTERRUPTED, _INTERRUPTS) if interrupted else (_FOCUSED, _PLACES)
    if resume or (random.random() > share and not program.series):
        return _simulate(program, seed, None, record=record, resume=resume)
    events = events_of(program)
    focus = Focus(random, interrupts="interrupt" in events)
    outcome = _simulate(program, seed, focus, record=record, resume=False)
    places = 0
    while not outcome.findings and (outcome.steps < _SERIES if program.series else places < most):
        places += 1
        event = random.choice(events)
        visit = focus.draw(event)
        if visit is None:
            break
        again = _simulate(program, seed, Focus(random, event, visit), record=record, resume=False)
        outcome = Outcome(
            [f"with {event} in {visit}: {finding}" if not n else finding for n, finding in enumerate(again.findings)],
            (outcome.digest * 31 + again.digest) & 0xFFFFFFFFFFFF,
            outcome.steps + again.steps,
            outcome.decisions + again.decisions,
            again.schedule,
        )
    return outcome


def _simulate(program: Program, seed: int, focus: Focus | None, *, record: bool, resume: bool) -> Outcome:
    host = SimulatedHost(Random(f"host {seed}"), focus, hooked=bool(program.hooks))
    findings: list[str] = []

    def main() -> None:
        try:
            findings.extend(run_resumed(program, host, Random(f"cuts {seed}")) if resume else run(program, host))
        finally:
            host.close()

    exact = any(pipe.timeout for pipe in all_pipes(program))
    scheduler = Scheduler(draw_policy(Random(f"schedule {seed}"), exact_time=exact), record=record)
    scheduler.run(main)
    findings += host.findings
    findings += [f"{name} ended with {''.join(traceback.format_exception(error))}" for name, error in scheduler.errors]
    if scheduler.hung:
        how = "nobody can go on" if not scheduler.runnable else "the engine spins"
        findings.append(f"hang: {how}: {_waits(scheduler)}")
    elif scheduler.fibers:
        findings.append(f"threads are left: {_waits(scheduler)}")
    return Outcome(findings, scheduler.digest, scheduler.steps, scheduler.decisions, scheduler.schedule)


def _waits(scheduler: Scheduler) -> str:
    lines = []
    for fiber in scheduler.fibers:
        frame = fiber.greenlet.gr_frame
        stack = [] if frame is None else traceback.extract_stack(frame)
        # Innermost last; the simulation's own frames say nothing.
        where = [
            f"{it.filename.rpartition('/')[2]}:{it.lineno} {it.name}"
            for it in stack
            if "/simulation/" not in it.filename
        ]
        lines.append(f"\n  {fiber.name} waits for {fiber.waits_for or 'nothing'}: {' < '.join(reversed(where[-4:]))}")
    return "".join(lines)
