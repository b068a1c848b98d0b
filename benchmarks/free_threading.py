"""Measure the engine on a Python that can run without a GIL, beside the same Python with it.

Claims, each the quotient of two medians of one alternating run, in which every contender works in processes of its own:

* Stages that do nothing pass at least as many items per second without the GIL as with it, on 1, 2 and 8 threads, and
  on two threads 1.3 times as many as on one.
* Without the GIL, ops that compute in Python for a millisecond pass 1.9 times as many on two threads as on one, and
  those of 50 microseconds 1.85 times as many. Those of 10 and 200 microseconds are measured beside them.

Run it as `python benchmarks/free_threading.py [--rounds N] [--json FILE]`. On a Python that always has the GIL, it
measures our wheel on the free-threaded Python that `scripts/bundle/python_313t.sh` builds, in an environment that is
made once. Leave the machine to it: without a GIL, threads that wait for each other suffer from whatever else wants the
cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from _image_environments import FREE_THREADED, MAKERS
from _turns import Job, take_turns
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.turn import PeerUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

WORK = Path(__file__).with_name("_engine_work")
NO_OP: dict[str, Any] = {"work": "stream.pipeline", "items": 100_000, "stages": 3, "concurrency": 4}
# Ops that compute in Python: microseconds of each, and how many there are.
IN_PYTHON = {10: 50_000, 50: 20_000, 200: 5_000, 1000: 1_000}
ROWS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "no-op": ("3 no-op stages, concurrency 4", NO_OP, (1, 2, 8)),
} | {
    f"python {microseconds}": (
        f"1 stage that computes in Python for {microseconds} microseconds",
        {"work": "python_ops.pipeline", "items": items, "microseconds": microseconds},
        (1, 2),
    )
    for microseconds, items in IN_PYTHON.items()
}
WITHOUT, WITH = "without", "with"


class Contender(NamedTuple):
    """What works in a process of its own."""

    row: str
    threads: int
    gil: str


class Claim(NamedTuple):
    """One contender's items per second, divided by another one's, should be at least so many."""

    of: Contender
    beside: Contender
    mark: float


CLAIMS = (
    *(Claim(Contender("no-op", threads, WITHOUT), Contender("no-op", threads, WITH), 1.0) for threads in (1, 2, 8)),
    Claim(Contender("no-op", 2, WITHOUT), Contender("no-op", 1, WITHOUT), 1.3),
    Claim(Contender("python 50", 2, WITHOUT), Contender("python 50", 1, WITHOUT), 1.85),
    Claim(Contender("python 1000", 2, WITHOUT), Contender("python 1000", 1, WITHOUT), 1.9),
)


def jobs(python: Sequence[str]) -> dict[Contender, Job]:
    """Return the work of every contender."""
    return {
        Contender(key, threads, gil): Job(
            (*python, "-X", f"gil={int(gil == WITH)}"), WORK, arguments | {"threads": threads}
        )
        for key, (_, arguments, counts) in ROWS.items()
        for threads in counts
        for gil in (WITHOUT, WITH)
    }


def write(file: Path | None, result: dict[str, Any]) -> None:
    """Write the outcome if there is a file for it."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=1) + "\n")


def main() -> int:
    """Run the rounds, then print and write the outcome. Return the exit status, which says whether the claims hold."""
    parser = argparse.ArgumentParser(description="Measure the engine without a GIL.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    try:
        python = (sys.executable,) if "t" in sys.abiflags else MAKERS[FREE_THREADED](Console())
    except PeerUnavailable as reason:
        print(f"not measured: {reason}")
        write(options.json, {"provenance": provenance(), "absent": str(reason)})
        return 0
    version = subprocess.run([*python, "-VV"], check=True, capture_output=True, text=True).stdout.strip()

    medians, failed = take_turns(
        {", ".join(map(str, contender)): job for contender, job in jobs(python).items()}, options.rounds
    )
    for name, figures in medians.items():
        print(
            f"{name}: {figures['items_per_second']:,.0f} items/s, {figures['cpu_seconds_per_million']:.3g} us CPU each"
        )
    claims = []
    for of, beside, mark in CLAIMS:
        names = [", ".join(map(str, each)) for each in (of, beside)]
        if not set(names) <= medians.keys():
            continue
        value = medians[names[0]]["items_per_second"] / medians[names[1]]["items_per_second"]
        claims.append(
            {"of": of._asdict(), "beside": beside._asdict(), "value": value, "mark": mark, "met": value >= mark}
        )
        print(f"({names[0]}) / ({names[1]}) = {value:.3g}, mark {mark}: {'met' if value >= mark else 'MISSED'}")
    rows = {
        key: {
            "title": title,
            "work": arguments,
            "contenders": [
                {"threads": threads, "gil": gil, **medians[name]}
                for threads in counts
                for gil in (WITHOUT, WITH)
                if (name := ", ".join(map(str, (key, threads, gil)))) in medians
            ],
        }
        for key, (title, arguments, counts) in ROWS.items()
    }
    origin = {"provenance": provenance(), "measured": version, "rounds": options.rounds}
    write(options.json, {**origin, "failed": failed, "rows": rows, "claims": claims})
    return 1 if failed or not all(claim["met"] for claim in claims) else 0


if __name__ == "__main__":
    raise SystemExit(main())
