"""Measure the kinds of workers that a region may have: what they do at once, what crossing costs, how soon they start.

Claims: with ops of a millisecond in Python, two workers that have a GIL each do 1.8 times as much as two threads. A
region of threads does no less than 0.9 of the same in plain threads.

Run it as `python benchmarks/region_kinds.py [--interpreters PYTHON] [--rounds N] [--json FILE]`; it takes a minute or
two. PYTHON is 3.13 or newer and has `spdl-turbo`; without it, interpreters are left out where this Python is older. On
3.13 they are made by the private module that the public one of 3.14 stands on. `scripts/concurrency_page.py` writes the
recorded run into docs/concurrency.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from _turns import Job, take_turns
from spdl.cli._common.machine import provenance

KINDS = ("processes", "interpreters", "threads", "none")
PRELOADED = "processes, preloaded"
RATES = {"spin": 3_000, "same": 50_000}
STARTS = 5
MARKS = {"processes": 1.8, "interpreters": 1.8, "threads": 0.9}

_WORK = Path(__file__).with_name("_out_of_process_work")


def jobs(interpreters: str | None) -> dict[tuple[str, str], Job]:
    """Return what is to be done, by the kind of workers and what is measured."""
    found = {}
    for kind in KINDS:
        python = sys.executable
        if kind == "interpreters" and sys.version_info < (3, 13):
            if interpreters is None:
                continue
            python = interpreters
        for op, count in RATES.items():
            found[kind, op] = Job((python,), _WORK, {"work": "kinds.rate", "kind": kind, "op": op, "count": count})
        found[kind, "start"] = Job((python,), _WORK, {"work": "kinds.start", "kind": kind, "again": STARTS})
    arguments = {"work": "kinds.start", "kind": "processes", "again": STARTS, "preload": True}
    found[PRELOADED, "start"] = Job((sys.executable,), _WORK, arguments)
    return found


def main() -> int:
    """Measure, print, and say whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--interpreters", metavar="PYTHON", help="what runs the regions of interpreters")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    medians, failed = take_turns(jobs(options.interpreters), options.rounds)
    kinds: dict[str, dict[str, Any]] = {}
    for (kind, what), figures in medians.items():
        kinds.setdefault(kind, {})[what] = figures
    holds = {
        kind: kinds[kind]["spin"]["items_per_second"] / kinds["none"]["spin"]["items_per_second"] >= mark
        for kind, mark in MARKS.items()
        if {(kind, "spin"), ("none", "spin")} <= medians.keys()
    }
    for kind, measured in kinds.items():
        print(kind, json.dumps(measured))
    print({kind: "holds" if held else "FAILS" for kind, held in holds.items()})
    if options.json is not None:
        result = {
            "provenance": provenance(),
            "load": load,
            "rounds": options.rounds,
            "kinds": kinds,
            "failed": {", ".join(key): why for key, why in failed.items()},
            "holds": holds,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(holds.values()) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
