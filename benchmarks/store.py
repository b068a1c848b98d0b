"""Read objects of 100 kB from a web server that has faults, beside fsspec, and batches with and without hedges.

Claims, at 40 ms latency, 50 MB/s, 1 % of answers after a second, 0.5 % 503 and 0.2 % cut: 90 % of what the line
carries, at 220 microseconds of CPU per object or less; five times the objects per CPU-second of fsspec file by file and
twice that of its concurrent `cat`; and with hedges a third of the time that one batch in a hundred exceeds, or less,
for 5 % more bytes, or fewer. An epoch from a full disk cache is 95 % as fast as one from files, or faster.

Run it as `python benchmarks/store.py [--rounds N] [--objects N] [--batches N] [--fsspec PYTHON] [--json FILE]`. PYTHON
is an interpreter that has fsspec and aiohttp. The server runs in a process of its own, and each contender too.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from _turns import Job, take_turns
from spdl.cli._common.machine import provenance

WORK = Path(__file__).with_name("_store_work.py")
FILE_BY_FILE = "fsspec, file by file"


def main() -> None:
    """Measure, print, and write the results if that is asked for."""
    parser = argparse.ArgumentParser(description="Measure reading from a web server that has faults.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--fsspec", default=sys.executable, metavar="PYTHON", help="has fsspec and aiohttp")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    jobs = {}
    for name in ("spdl-turbo", FILE_BY_FILE, "fsspec, cat"):
        # One by one takes 40 ms each.
        count = options.objects // 20 if name == FILE_BY_FILE else options.objects
        python = sys.executable if name == "spdl-turbo" else options.fsspec
        jobs[name] = Job([python], WORK, {"work": "reading", "contender": name, "count": count})
    for name in ("spdl-turbo, hedged", "spdl-turbo, unhedged"):
        jobs[name] = Job([sys.executable], WORK, {"work": "batches", "contender": name, "count": options.batches})
    jobs["spdl-turbo, disk cache"] = Job(
        [sys.executable], WORK, {"work": "epochs", "contender": "spdl-turbo", "count": options.objects // 5}
    )
    medians, failed = take_turns(jobs, options.rounds)

    for name, figures in medians.items():
        print(f"{name:24}", "  ".join(f"{figure} {value:.4g}" for figure, value in figures.items()))
    for name, reason in failed.items():
        print(f"{name:24} did not run: {reason}")
    if options.json:
        result = {"medians": medians, "failed": failed, "rounds": options.rounds, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
