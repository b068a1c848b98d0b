"""Count how many simulated runs find each planted bug of `make mutation`: ``python -m tests.simulation.mutants``."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.mutation.mutants import MUTANTS, Mutant

# Where programs have no budget of bytes, and where they have.
_USUAL, _BUDGETED = "tests.simulation", "tests.simulation.budgeted"
_SUMMARY = re.compile(r"^(\d+) runs from seed", re.MULTILINE)
_FINDING = re.compile(r"^seed \d+: \* (.*)", re.MULTILINE)
NO_END = "the simulation did not end"
# A bug may make the simulation itself stop, as an engine that spins does: so many runs may take so many seconds.
_PIECE, _SECONDS = 500, 150


def _hunt(mutant: Mutant, runs: int, seed: int) -> dict[str, Any]:
    done = 0
    while True:
        row = _hunt_piece(mutant, min(_PIECE, runs - done), seed + done)
        if row["found"]:
            return row if row["runs"] is None else {**row, "runs": row["runs"] + done}
        done += row["runs"]
        if done >= runs:
            return {**row, "runs": done}


def _hunt_piece(mutant: Mutant, runs: int, seed: int) -> dict[str, Any]:
    module = [_BUDGETED] if mutant.budget else [_USUAL, "--no-shrink"]
    command = [sys.executable, "-m", *module, f"--mutant={mutant.name}", f"--runs={runs}", f"--seed={seed}"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return {"mutant": mutant.name, "found": True, "runs": None, "finding": NO_END}
    summary = _SUMMARY.search(done.stdout)
    said = _FINDING.search(done.stdout)
    if summary is None:
        # The pipeline cannot even be imported or built: the simulation works without the bug, as `_check` has seen.
        return {"mutant": mutant.name, "found": True, "runs": 0, "finding": done.stderr.strip().rpartition("\n")[2]}
    return {
        "mutant": mutant.name,
        "found": bool(done.returncode),
        "runs": int(summary[1]),
        "finding": said[1][:200] if said else "",
    }


def _check() -> None:
    """End the program if the simulation does not work here, which would look like a bug that is found."""
    for module in (_USUAL, _BUDGETED):
        command = [sys.executable, "-m", module, "--runs=20"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode or _SUMMARY.search(done.stdout) is None:
            sys.exit(f"The simulation fails without any bug:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Hunt each bug, and print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only the mutants whose name or function has all of these in it")
    parser.add_argument("--runs", type=int, default=3000, help="give up after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to write the result")
    arguments = parser.parse_args()
    mutants = [it for it in MUTANTS if all(word in f"{it.name} {it.function}" for word in arguments.words)]
    _check()
    rows = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(lambda mutant: _hunt(mutant, arguments.runs, arguments.seed), mutants):
            rows.append(row)
            state = "found after" if row["found"] else "MISSED in"
            sys.stdout.write(
                f"[{len(rows)}/{len(mutants)}] {row['mutant']}: {state} {row['runs']} runs {row['finding'][:90]}\n"
            )
            sys.stdout.flush()
    found = [row for row in rows if row["found"]]
    counts = [row["runs"] for row in found if row["runs"] is not None]
    summary = {
        "mutants": len(rows),
        "found": len(found),
        # Among these: the engine could not be imported, or built; a run did not end.
        "found_at_once": sum(row["runs"] == 0 for row in found),
        "found_without_end": sum(row["runs"] is None for row in found),
        "median_runs": statistics.median(counts) if counts else None,
        "seed": arguments.seed,
        "most_runs": arguments.runs,
        "rows": rows,
    }
    sys.stdout.write(f"{len(found)} of {len(rows)} found; median {summary['median_runs']} runs\n")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
