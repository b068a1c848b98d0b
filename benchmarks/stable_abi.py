"""Measure the cost of one wheel for all Pythons from 3.12 on: the stable ABI beside a build for 3.12 alone.

Claim: no call costs over 3 % more than with the build for one Python. `scripts/bundle/wheel.sh` builds both wheels
alike, and they are installed into environments of their own. Processes of the two take turns, each measures all calls
in CPU time, and the medians of the rounds are compared. Calls that do next to nothing show the cost of the ABI best.

Run it as `python benchmarks/stable_abi.py [--rounds N] [--json FILE]`. It needs the Python 3.12 that
`scripts/bundle/pythons.sh 3.12` finds, and compiles for some minutes first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from _turns import Job, take_turns
from spdl.cli._common.machine import provenance

ROOT = Path(__file__).resolve().parent.parent
STABLE, SPECIFIC = "stable ABI", "for 3.12 alone"
OPTIONS = {STABLE: (), SPECIFIC: ("-C", "wheel.py-api=")}
MARK = 1.03


def find_python() -> str | None:
    """Return an interpreter of Python 3.12 that has headers."""
    found = subprocess.run([ROOT / "scripts/bundle/pythons.sh", "3.12"], check=True, capture_output=True, text=True)
    return found.stdout.strip().partition(" ")[2] or None


def install(python: str, options: tuple[str, ...], folder: Path) -> Path:
    """Build a wheel, install it into a new environment, and return its interpreter."""
    build = [ROOT / "scripts/bundle/wheel.sh", python, folder / "dist", *options]
    wheel = subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([python, "-m", "venv", folder / "environment"], check=True)
    interpreter = folder / "environment" / "bin" / "python"
    subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel], check=True)
    return interpreter


def write(file: Path, result: dict[str, Any]) -> None:
    """Write the outcome."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def main() -> int:
    """Measure, print and write the outcome."""
    parser = argparse.ArgumentParser(description="Measure what the stable ABI costs.")
    parser.add_argument("--rounds", type=int, default=9, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    python = find_python()
    if python is None:
        reason = "there is no Python 3.12 here"
        print(f"not measured: {reason}")
        if options.json:
            write(options.json, {"provenance": provenance(), "absent": reason})
        return 0

    with tempfile.TemporaryDirectory() as name:
        jobs = {}
        for contender, arguments in OPTIONS.items():
            folder = Path(name) / contender.replace(" ", "-")
            folder.mkdir()
            interpreter = install(python, arguments, folder)
            work = Path(__file__).with_name("_calls_work.py")
            jobs[contender] = Job((str(interpreter), "-I"), work, {"turns": 5})
        medians, failed = take_turns(jobs, options.rounds)
    if failed:
        raise SystemExit(f"failed: {failed}")
    rows = {
        call: {"nanoseconds": {it: medians[it][call] for it in OPTIONS}, "ratio": nanoseconds / medians[SPECIFIC][call]}
        for call, nanoseconds in medians[STABLE].items()
    }
    for call, row in rows.items():
        print(f"{call:<28} {row['nanoseconds'][STABLE]:10,.0f} ns  ratio {row['ratio']:.3f}")
    largest = max(row["ratio"] for row in rows.values())
    print(f"largest ratio {largest:.3f}, mark at most {MARK}: {'met' if largest <= MARK else 'MISSED'}")
    if options.json:
        found = {"rounds": options.rounds, "mark": MARK, "largest": largest, "rows": rows}
        write(options.json, {"provenance": provenance(), **found})
    return 0 if largest <= MARK else 1


if __name__ == "__main__":
    raise SystemExit(main())
