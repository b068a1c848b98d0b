"""Run random programs under random schedules, and report what goes wrong. See `make simulate`."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.simulation import record
from tests.simulation.instrument import import_all, install
from tests.simulation.planted import patch_of

# No process that runs for a time gets as far as this.
_ENDLESS = 1_000_000


def main() -> int:
    """Run and report. Return the exit status: 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many runs, each with a program and a schedule")
    parser.add_argument("--seconds", type=float, help="how long to go on instead")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first run; the next ones follow")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the runs")
    parser.add_argument("--findings", type=int, default=1, help="stop after so many runs with findings")
    parser.add_argument("--program", type=Path, help="run the program in this file instead, under many schedules")
    parser.add_argument("--schedule", action="store_true", help="print who went on where, for each finding")
    parser.add_argument("--no-shrink", action="store_true", help="report programs as they were drawn")
    parser.add_argument("--record", type=Path, help="add what was run to this file, if it ends without a finding")
    parser.add_argument("--resume", action="store_true", help="cut each program at random steps, and go on there")
    parser.add_argument("--mutant", help="plant the bug of tests/mutation that has this name")
    arguments = parser.parse_args()
    if arguments.jobs > 1:
        return _share(arguments.jobs, arguments.runs, arguments.seed, endless=arguments.seconds is not None)
    logging.disable()
    install(patch_of(arguments.mutant))
    import_all()
    return _explore(arguments)


def _share(jobs: int, runs: int, seed: int, *, endless: bool) -> int:
    """Run in several processes, each with seeds of its own. ``endless`` says that time limits the runs."""
    share = -(-runs // jobs)
    # The last of several options of one name counts.
    command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:], "--jobs=1", f"--runs={share}"]
    apart = _ENDLESS if endless else share
    processes = [subprocess.Popen([*command, f"--seed={seed + apart * index}"]) for index in range(jobs)]
    # The status of a process that a signal killed is negative.
    statuses = [process.wait() for process in processes]
    return int(any(statuses))


def _explore(arguments: argparse.Namespace) -> int:
    from tests.simulation.explore import draw_program, simulate  # noqa: PLC0415 - the world must be installed before.
    from tests.simulation.programs.program import Program  # noqa: PLC0415 - as above.
    from tests.simulation.report import report  # noqa: PLC0415 - as above.

    program = None if arguments.program is None else Program.from_json(arguments.program.read_text())
    gc.collect()
    gc.freeze()
    gc.disable()
    begin = time.monotonic()
    runs = found = steps = decisions = digest = 0
    while found < arguments.findings:
        elapsed = time.monotonic() - begin
        if elapsed >= arguments.seconds if arguments.seconds else runs >= arguments.runs:
            break
        seed = arguments.seed + runs
        drawn = program or draw_program(seed)
        outcome = simulate(drawn, seed, resume=arguments.resume)
        runs += 1
        steps += outcome.steps
        decisions += outcome.decisions
        digest = (digest * 31 + outcome.digest) & 0xFFFFFFFFFFFF
        if outcome.findings:
            found += 1
            report(
                drawn,
                seed,
                outcome,
                shrinks=not arguments.no_shrink,
                schedule=arguments.schedule,
                resume=arguments.resume,
            )
        # What is left is freed here: a finalizer of one run would be a step of another.
        gc.collect()
        if runs % 1000 == 0:
            _say(f"{runs} runs, {runs / (time.monotonic() - begin):.0f}/s, {found} with findings")
    seconds = time.monotonic() - begin
    _say(
        f"{runs} runs from seed {arguments.seed}, digest {digest:x}, {steps} steps, {decisions} decisions, "
        f"{found} with findings ({seconds:.0f} s, {runs / max(seconds, 1e-9):.0f}/s)"
    )
    if arguments.record is not None and not found:
        record.add(
            arguments.record,
            seed=arguments.seed,
            runs=runs,
            steps=steps,
            decisions=decisions,
            findings=found,
            seconds=seconds,
        )
    return int(found > 0)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - printing is this program's purpose.


if __name__ == "__main__":
    status = main()
    # A run that hung leaves fibers, which nobody can end.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
