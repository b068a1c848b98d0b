"""Read records of local files beside the formats' own readers, and count what a large archive costs to open.

Claims: three times the samples per second of WebDataset's own reader on the same archives, with 2 workers each; 0.9 of
the rows per second of pyarrow's own scan of a file of 10,000 row groups, within three row groups and `prefetch_bytes`
of memory; 1 % of an archive of 10 GB is read to open it for random access, or less; and three requests to the first
batch, or fewer.

Run it as `python benchmarks/records.py [--rounds N] [--samples N] [--peer PYTHON] [--json FILE]`. PYTHON is an
interpreter that has webdataset, torch, Pillow and pyarrow. Each contender runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from _turns import Job, take_turns
from spdl.cli._common.machine import provenance

WORK = Path(__file__).with_name("_records_work.py")
ROWS = {
    "shards, read": ("spdl-turbo", "webdataset"),
    "shards, decoded": ("spdl-turbo", "webdataset"),
    "parquet, tables": ("spdl-turbo", "spdl-turbo in a store", "pyarrow", "pyarrow, dataset"),
    "opening": ("spdl-turbo",),
}
MARKS = {"shards, read": 3, "shards, decoded": 3, "parquet, tables": 0.9}


def main() -> None:
    """Measure, print, and write the results if that is asked for."""
    parser = argparse.ArgumentParser(description="Measure sources of records.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="has webdataset, torch and pyarrow")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    results = {}
    with tempfile.TemporaryDirectory(prefix="spdl-records-") as folder:
        for row, contenders in ROWS.items():
            task = {"row": row, "folder": folder, "count": options.samples}
            # One interpreter for all, so that they share the versions of Python and of pyarrow.
            jobs = {name: Job([options.peer], WORK, {**task, "contender": name}) for name in contenders}
            medians, failed = take_turns({"prepare": Job([options.peer], WORK, {**task, "contender": "prepare"})}, 1)
            if not failed:
                medians, failed = take_turns(jobs, 1 if row == "opening" else options.rounds)
            results[row] = {"medians": medians, "failed": failed}
            show(row, medians, failed)
    if options.json:
        result = {"rows": results, "marks": MARKS, "rounds": options.rounds, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def show(row: str, medians: dict[str, dict[str, float]], failed: dict[str, str]) -> None:
    """Print the figures of a row, and how ours compare."""
    for name, figures in medians.items():
        print(f"{row:16} {name:22}", "  ".join(f"{figure} {value:.6g}" for figure, value in figures.items()))
    for name, reason in failed.items():
        print(f"{row:16} {name:22} did not run: {reason}")
    peers = [name for name in medians if not name.startswith("spdl")]
    if row in MARKS and peers and "spdl-turbo" in medians:
        share = medians["spdl-turbo"]["per second"] / medians[peers[0]]["per second"]
        print(f"{row:16} {share:.2f} of {peers[0]} (>= {MARKS[row]})")


if __name__ == "__main__":
    main()
