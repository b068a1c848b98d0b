"""Run `make test` again and again on a machine that is kept busy, and record whether any run was red.

One run has two busy loops on each core beside it, the next is under `nice` with one core taken away. On a machine that
other work keeps as busy, `--loops 0` leaves the loops out; the record has the load average.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from spdl.cli._common.machine import provenance

ROOT = Path(__file__).resolve().parents[1]
CORES = sorted(os.sched_getaffinity(0))


class _World(NamedTuple):
    name: str
    loops: int
    cores: list[int]
    command: list[str]


# What the ledger of costs and skips finds is told behind the failures.
_LEDGER = re.compile(r"CPU-seconds, and its ring expects|were skipped for a reason")
MAKE = ["make", "--no-print-directory", "test"]


def _worlds(loops: int) -> dict[str, _World]:
    beside = f"{loops} busy loops on each core" if loops else "other work"
    return {
        "busy": _World(beside, loops * len(CORES), CORES, MAKE),
        "nice": _World("nice, one core less", 0, CORES[1:] or CORES, ["nice", *MAKE]),
    }


def main() -> int:
    """Run and record. Return the exit status: 1 if a run was red."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how many runs of each kind (default: %(default)s)")
    parser.add_argument("--only", choices=["busy", "nice"], help="one kind of run alone")
    parser.add_argument("--loops", type=int, default=2, help="busy loops on each core (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the record to this file, or add to it")
    arguments = parser.parse_args()
    made = provenance()
    worlds = [world for kind, world in _worlds(arguments.loops).items() if arguments.only in {None, kind}]
    # Twenty runs of each kind take hours, so a record is gone on with.
    runs = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else []
    status = 0
    for number in range(1, arguments.times + 1):
        for world in worlds:
            runs.append({**_run(world), "provenance": made})
            status |= int(runs[-1]["status"] != 0)
            sys.stdout.write(f"{world.name}, {number} of {arguments.times}: {runs[-1]}\n")
            sys.stdout.flush()
            if arguments.json:
                arguments.json.write_text(json.dumps(runs, indent=1) + "\n")
    return status


def _run(world: _World) -> dict[str, object]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(world.loops)]
    begin = time.monotonic()
    os.sched_setaffinity(0, world.cores)
    try:
        done = subprocess.run(world.command, cwd=ROOT, check=False, capture_output=True, text=True)
    finally:
        os.sched_setaffinity(0, CORES)
        for process in busy:
            process.kill()
            process.wait()
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return {
        "beside": world.name,
        "status": done.returncode,
        "seconds": round(time.monotonic() - begin),
        "load": round(os.getloadavg()[1], 1),
        "said": next((line for line in reversed(lines) if " passed" in line), "".join(lines[-1:])),
        "red": [line for line in lines if line.startswith(("FAILED ", "ERROR ")) or _LEDGER.search(line)],
    }


if __name__ == "__main__":
    sys.exit(main())
