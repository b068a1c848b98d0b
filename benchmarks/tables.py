"""Read a Parquet table of 5 million rows as shuffled batches of tensors, beside pyarrow with torch and Hugging Face's.

Claims: 3 million rows per second on 2 cores with batches of 8,192 rows of ten columns, one of them lists and one a
dictionary; twice what a dataset of pyarrow and torch gives that shuffles windows of row groups, and four times a
streaming dataset of Hugging Face that shuffles in a buffer.

Run it as `python benchmarks/tables.py [--rounds N] [--rows N] [--peer PYTHON] [--json FILE]`. PYTHON is an interpreter
that has torch, pyarrow and datasets. Each contender runs in a separate process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from _turns import Job, take_turns
from spdl.cli._common.machine import provenance

WORK = Path(__file__).with_name("_tables_work.py")
OWN = "spdl-turbo"
FIGURE = "rows per second"
CONTENDERS = (OWN, "spdl-turbo, windows", "pyarrow + torch", "pyarrow + torch, 2 workers", "datasets, streaming")
MARKS = {"pyarrow + torch": 2, "pyarrow + torch, 2 workers": 2, "datasets, streaming": 4}
LEAST = 3e6


def main() -> None:
    """Measure, print, and write the results if that is asked for."""
    parser = argparse.ArgumentParser(description="Measure shuffled batches of tables.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="has torch, pyarrow and datasets")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="spdl-tables-") as folder:
        # One interpreter for all, so that they share the versions of Python and of pyarrow.
        jobs = {
            name: Job([options.peer], WORK, {"contender": name, "folder": folder, "rows": options.rows})
            for name in ("prepare", *CONTENDERS)
        }
        medians, failed = take_turns({"prepare": jobs.pop("prepare")}, 1)
        if not failed:
            medians, failed = take_turns(jobs, options.rounds)
    show(medians, failed)
    if options.json:
        marks = {"least": LEAST, **MARKS}
        result = {
            "medians": medians,
            "failed": failed,
            "marks": marks,
            "rounds": options.rounds,
            "rows": options.rows,
            "provenance": provenance(),
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def show(medians: dict[str, dict[str, float]], failed: dict[str, str]) -> None:
    """Print the figures, and how ours compare."""
    for name, figures in medians.items():
        print(f"{name:28}", "  ".join(f"{figure} {value:,.0f}" for figure, value in figures.items()))
    for name, reason in failed.items():
        print(f"{name:28} did not run: {reason}")
    if OWN in medians:
        own = medians[OWN][FIGURE]
        print(f"{own:,.0f} rows per second (>= {LEAST:,.0f})")
        for name, mark in MARKS.items():
            if name in medians:
                print(f"{own / medians[name][FIGURE]:.2f} of {name} (>= {mark})")


if __name__ == "__main__":
    main()
