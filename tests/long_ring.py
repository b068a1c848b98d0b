"""Run what gains from hours: random programs, kills, soaks, fuzzing, planted bugs. See `make test-long`.

Each part is a command with a seed. It is run again with the next seed until its share of the minutes has passed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_LOGS = ROOT / "build" / "test-long"
_PYTHON = shlex.quote(sys.executable)
_CORES = len(os.sched_getaffinity(0))

# Seeds of runs follow each other, so parts that take many runs begin far apart.
_APART = 1_000_000


class _Part(NamedTuple):
    """What to run.

    Attributes:
        command: The command, with ``{seed}`` where it takes one.
        minutes: What it takes on two cores if it cannot be shortened. It is run once then, if the budget is four times
            that.
    """

    command: str
    minutes: float = 0


_PARTS = {
    "cases": _Part(f"{_PYTHON} -m pytest -q --ring long --hypothesis-seed {{seed}}"),
    "simulation": _Part(f"{_PYTHON} -m tests.simulation --runs 2000 --seed {{first}} --jobs {_CORES}"),
    "resumed": _Part(f"{_PYTHON} -m tests.simulation --resume --runs 2000 --seed {{first}} --jobs {_CORES}"),
    "budgets": _Part(f"{_PYTHON} -m tests.simulation.budgeted --runs 1000 --seed {{first}}"),
    "threads": _Part(f"{_PYTHON} -m tests.simulation.programs --runs 1000 --seed {{first}}"),
    "tuner": _Part(f"{_PYTHON} -m tests.tune --graphs 500 --seed {{first}}"),
    "soak": _Part(f"{_PYTHON} benchmarks/soak.py --items 100000"),
    "arrays": _Part("scripts/fuzz.sh arrays --seconds 60 --seed {seed}"),
    "rows": _Part("scripts/fuzz.sh rows --seconds 20 --seed {seed}"),
    "segments": _Part("scripts/fuzz.sh segments --seconds 20 --seed {seed}"),
    "images": _Part("scripts/fuzz.sh images --seconds 60 --seed {seed}"),
    "clips": _Part("scripts/fuzz.sh clips --seconds 60 --seed {seed}"),
    "bugs": _Part(f"{_PYTHON} -m tests.mutation", minutes=15),
    "conformance": _Part("scripts/conformance.sh", minutes=5),
}


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - printing is this program's purpose.


def main() -> int:
    """Run the parts and report. Return the exit status: 1 if one failed."""
    parser = argparse.ArgumentParser(prog="make test-long", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these parts: {', '.join(_PARTS)}")
    parser.add_argument("--minutes", type=float, default=60, help="the budget; parts share it (default: %(default)s)")
    parser.add_argument("--seed", default="0", help="the first seed, or 'random' (default: %(default)s)")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(_PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(_PARTS)}")
    seed = random.randrange(_APART) if arguments.seed == "random" else int(arguments.seed)  # noqa: S311
    chosen = {name: _PARTS[name] for name in arguments.parts or _PARTS}
    left_out = [] if arguments.parts else [name for name in chosen if 4 * chosen[name].minutes > arguments.minutes]
    for name in left_out:
        _say(f"{name}: left out, since it takes {chosen.pop(name).minutes} minutes; name it to run it")
    _say(f"seed {seed}; what is printed is in {_LOGS.relative_to(ROOT)}")
    _LOGS.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    failed = []
    for index, (name, part) in enumerate(chosen.items()):
        share = (end - time.monotonic()) / (len(chosen) - index)
        if not _run(name, part, seed, share):
            failed.append(name)
    _say(f"failed: {', '.join(failed)}" if failed else f"all passed: {', '.join(chosen)}")
    return int(bool(failed))


def _run(name: str, part: _Part, seed: int, seconds: float) -> bool:
    """Run a part with one seed after another. Return whether all passed."""
    begin = time.monotonic()
    log = _LOGS / f"{name}.log"
    runs = 0
    while True:
        command = part.command.format(seed=seed + runs, first=(seed + runs) * _APART)
        with log.open("w") as output:
            status = subprocess.run(
                shlex.split(command), cwd=ROOT, check=False, stdout=output, stderr=output
            ).returncode
        runs += 1
        passed = time.monotonic() - begin
        if status != 0:
            _say("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
            _say(
                f"{name}: FAILED with status {status}; the whole output is in {log.relative_to(ROOT)}; again: {command}"
            )
            return False
        if part.minutes or passed * (runs + 1) / runs > seconds:
            _say(f"{name}: {runs} runs passed in {passed / 60:.1f} minutes")
            return True


if __name__ == "__main__":
    sys.exit(main())
