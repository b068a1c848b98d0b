"""Measure the kinds of workers that a region may have: what they do at once, what crossing costs, how soon they start.

Claims: with ops of a millisecond in Python, two workers that have a GIL each do 1.8 times as much as one. A region of
threads does no less than 0.9 of the same in plain threads.

Run it as `python benchmarks/region_kinds.py [--rounds N] [--json FILE]`; it takes two minutes. Before Python 3.14,
interpreters are left out; `scripts/debian_root.sh` runs it on 3.14. `scripts/concurrency_page.py` writes the recorded
run into docs/concurrency.md.
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
# Each by what it is compared with: one worker of the kind, or plain threads.
MARKS = {
    "processes": (1.8, ("processes", "one")),
    "interpreters": (1.8, ("interpreters", "one")),
    "threads": (0.9, ("none", "spin")),
}

_WORK = Path(__file__).with_name("_out_of_process_work")


def jobs() -> dict[tuple[str, str], Job]:
    """Return what is to be done, by the kind of workers and what is measured."""

    def job(**arguments: Any) -> Job:
        return Job((sys.executable,), _WORK, arguments)

    found = {}
    for kind in KINDS:
        if kind == "interpreters" and sys.version_info < (3, 14):
            continue
        for op, count in RATES.items():
            found[kind, op] = job(work="kinds.rate", kind=kind, op=op, count=count)
        found[kind, "one"] = job(work="kinds.rate", kind=kind, op="spin", count=RATES["spin"], workers=1)
        found[kind, "start"] = job(work="kinds.start", kind=kind, again=STARTS)
    found[PRELOADED, "start"] = job(work="kinds.start", kind="processes", again=STARTS, preload=True)
    return found


def main() -> int:
    """Measure, print, and say whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    medians, failed = take_turns(jobs(), options.rounds)
    kinds: dict[str, dict[str, Any]] = {}
    for (kind, what), figures in medians.items():
        kinds.setdefault(kind, {})[what] = figures
    holds = {
        kind: medians[kind, "spin"]["items_per_second"] / medians[beside]["items_per_second"] >= mark
        for kind, (mark, beside) in MARKS.items()
        if {(kind, "spin"), beside} <= medians.keys()
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
