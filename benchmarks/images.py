"""Measure loading photos as batches of 224x224, beside libjpeg-turbo's bare decoding and other loaders.

Claims, on the demo's photos (500x375, quality 94, 4:2:0). Each contender has its own process and environment, all take
turns, and the medians of the rounds count. `_image_rows.py` has the marks.

* One thread loads nearly as many images as libjpeg-turbo alone decodes, resize included. It loads more of them with the
  self-contained wheel, whose entropy decoder is ours. The share is greater with exact=False, which resizes planes and
  allows DCT scaling. To measure the former, build the checkout on the system's libjpeg-turbo
  (SPDL_PICTURE_LIBRARIES=SYSTEM).
* The flow of programs written for the released reference (spdl 0.8.0) loads a multiple of its rate there.
* PNGs are loaded at a multiple of Pillow's rate. Other formats are loaded no slower than there.
* Floats, planes and normalisation cost little. Random crops and flips cost less than nothing.
* The resize alone takes no longer than that of Pillow-SIMD.
* Memory does not grow, Python is not held up, and callers on a Python without a GIL scale as bare decoding does.

Whole loaders are tried with several numbers of workers, and the best one counts. The resize of each is named beside it,
as not all have the same one. A contender that cannot be installed or fails is listed with the reason.

Run it as `python benchmarks/images.py [--rows ROW...] [--rounds N] [--json FILE]`. Other rows that are already in the
file stay there, each with the commit at which it was measured. `--prepare` makes the environments, which takes minutes,
and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _alternating import describe, judge
from _image_environments import find_environments
from _image_photos import encoded_photos, large_photos
from _image_rows import rows
from _turns import Job, best_of_each, is_ours, take_turns
from spdl._cores import available_cores
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _image_rows import Row

WORK = Path(__file__).with_name("_images_work")


def measure(row: Row, rounds: int, folder: Path, commands: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Let the contenders with an environment work in turns, and judge them."""
    jobs = {
        (name, workers): Job(commands[it.environment], WORK, it.work | {"folder": str(folder), "workers": workers})
        for name, it in row.contenders.items()
        if it.environment in commands
        for workers in it.workers
    }
    medians, failed = take_turns(jobs, rounds)
    return outcome(row, medians, failed) | {"rounds": rounds}


def outcome(
    row: Row, medians: Mapping[tuple[str, int], dict[str, float]], failed: Mapping[tuple[str, int], str]
) -> dict[str, Any]:
    """Return the record of a row: each contender at its best, all other tries, and the claims."""
    best = best_of_each(medians, row.figure)
    contenders = {name: best[name] for name in row.contenders if name in best}
    claims = [judge(claim, contenders, judged=True) for claim in row.claims]
    return {
        "title": row.title,
        "figure": row.figure,
        "resizes": {name: it.resize for name, it in row.contenders.items()},
        "works": {name: it.work for name, it in row.contenders.items()},
        "contenders": contenders,
        "tried": [{"contender": name, "workers": workers} | it for (name, workers), it in medians.items()],
        "failed": [{"contender": name, "workers": workers, "why": why} for (name, workers), why in failed.items()],
        "claims": [claim for claim in claims if claim],
    }


def missing(row: Row, result: dict[str, Any], absent: Mapping[str, str]) -> dict[str, str]:
    """Return why contenders have no figures."""
    words = {it["contender"]: it["why"] for it in result["failed"]}
    return {
        name: absent.get(it.environment) or words.get(name, "it did not run")
        for name, it in row.contenders.items()
        if name not in result["contenders"]
    }


def merged(before: dict[str, Any], result: dict[str, Any], order: list[str]) -> dict[str, Any]:
    """Return the result with the missing rows added from an earlier run, in the order of the table."""
    both = before.get("rows", {}) | result["rows"]
    return result | {"rows": {key: both[key] for key in order if key in both}}


def main() -> int:
    """Run the rounds that the command line asks for, then print and write the outcome.

    Returns:
        The exit status, which says whether the claims hold.
    """
    cores = available_cores()
    table = rows(cores)
    default = [key for key, row in table.items() if row.cores <= cores]
    parser = argparse.ArgumentParser(
        description="Measure loading photos.",
        epilog="rows:\n" + "\n".join(f"  {key:<12} {row.title}" for key, row in table.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=table,
        default=default,
        metavar="ROW",
        help="which rows (default: all that the number of cores is enough for)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds per row (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file, beside the rows that it holds")
    parser.add_argument("--prepare", action="store_true", help="make the environments and photos, and stop")
    options = parser.parse_args()

    console = Console()
    chosen = {key: table[key] for key in options.rows}
    needed = [it.environment for row in chosen.values() for it in row.contenders.values()]
    commands, absent = find_environments(needed, console)
    folders = {"small": demo_photos(console)}
    for photos in {row.photos for row in chosen.values()} - {"small"}:
        small = folders["small"]
        folders[photos] = large_photos(small) if photos == "large" else encoded_photos(small, photos)
    for environment, reason in absent.items():
        print(f"{environment} is not available: {reason}")
    if options.prepare:
        return 0

    origin = provenance()
    found: dict[str, Any] = {}
    for key, row in chosen.items():
        result = measure(row, options.rounds, folders[row.photos], commands)
        result["absent"] = missing(row, result, absent)
        found[key] = result | {name: origin[name] for name in ("commit", "date")}
        print(describe(result), flush=True)
        for it in result["failed"]:
            if it["contender"] in result["contenders"]:
                print(f"  {it['contender']} fails with {it['workers']} workers: {it['why']}")
    if options.json:
        before = json.loads(options.json.read_text()) if options.json.exists() else {}
        left_out = {key: f"it takes {row.cores} cores" for key, row in table.items() if row.cores > cores}
        result = merged(before, {"provenance": origin, "left_out": left_out, "rows": found}, list(table))
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    missed = [
        row["title"]
        for row in found.values()
        if any(is_ours(it["contender"]) for it in row["failed"]) or any(it["met"] is False for it in row["claims"])
    ]
    for title in missed:
        print(f"MISSED {title}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
