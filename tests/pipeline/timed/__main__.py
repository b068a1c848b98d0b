"""Runs the programs of this folder in simulated time, and prints what went wrong with each as JSON."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from random import Random
from typing import TYPE_CHECKING

from tests.pipeline.timed import cores
from tests.simulation import instrument, scheduler, world
from tests.simulation.policies import Uniform

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = ("executors", "graphs", "hooks", "limits", "queues", "reports", "statistics", "timeouts")

_SEEDS = range(2)

# The programs in which the engine has spun. It takes long until that is seen.
_spun: list[str] = []


def _run(program: Callable[[], None], seed: int) -> str:
    """Return what went wrong, or an empty text."""
    if _spun:
        return f"It was not run, as the engine spins in {_spun[0]}."
    wrong = []

    def main() -> None:
        try:
            program()
        except Exception:  # noqa: BLE001 - whatever it is, the test shows it.
            wrong.append("".join(traceback.TracebackException(*sys.exc_info(), capture_locals=True).format()))

    run = scheduler.Scheduler(Uniform(Random(seed), jumps=0.0, mean=40.0))  # noqa: S311 - it chooses who goes on.
    run.run(main)
    wrong += [f"{name} ended with {''.join(traceback.format_exception(error))}" for name, error in run.errors]
    if run.hung and run.runnable:
        _spun.append(program.__name__)
    if run.hung or run.fibers:
        wrong.append(f"These are left: {[(fiber.name, fiber.waits_for) for fiber in run.fibers]}")
    return "\n".join(wrong)


def main() -> None:
    """Run them all in one process: the import in the simulated world takes most of the time."""
    instrument.install()
    world.thread_time = cores.used
    # A program may wait for minutes, in which the engine looks at its clocks now and then.
    scheduler.MOST_STEPS, scheduler._MOST_SECONDS = 1_000_000, 600.0
    instrument.import_all()
    for module in MODULES:
        importlib.import_module(f"tests.pipeline.timed.{module}")
    from tests.pipeline.timed.programs import PROGRAMS  # noqa: PLC0415 - in the simulated world.

    wrong = {
        module: {name: [_run(program, seed) for seed in _SEEDS] for name, program in programs.items()}
        for module, programs in PROGRAMS.items()
    }
    json.dump(wrong, sys.stdout)


if __name__ == "__main__":
    main()
