"""Run the rows of `video.py` and `audio.py`: contenders work in turns, each in a process of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _alternating import describe
from _image_environments import find_environments
from _media_clips import media_clips
from _media_environments import MEDIA_MAKERS
from _turns import Job, is_ours, take_turns
from images import merged, missing, outcome
from spdl._cores import available_cores
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.turn import PeerUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _image_rows import Row

WORK = Path(__file__).with_name("_media_work")


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


def run_media(description: str, table: dict[str, Row]) -> int:
    """Run the rounds that the command line asks for, then print and write the outcome.

    Returns:
        The exit status, which says whether all of ours ran and the claims hold.
    """
    cores = available_cores()
    default = [key for key, row in table.items() if row.cores <= cores]
    parser = argparse.ArgumentParser(
        description=description,
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
    parser.add_argument("--without", nargs="+", default=[], metavar="ENVIRONMENT", help="environments to leave out")
    parser.add_argument("--json", type=Path, help="write the result to this file, beside the rows that it holds")
    parser.add_argument("--prepare", action="store_true", help="make the environments and clips, and stop")
    options = parser.parse_args()

    console = Console()
    try:
        folder = media_clips(console)
    except PeerUnavailable as reason:
        parser.exit(1, f"{reason}\n")
    chosen = {key: table[key] for key in options.rows}
    needed = dict.fromkeys(it.environment for row in chosen.values() for it in row.contenders.values())
    wanted = [it for it in needed if it not in options.without]
    commands, absent = find_environments(wanted, console, MEDIA_MAKERS)
    absent |= {it: "it was left out on the command line" for it in needed if it in options.without}
    for environment, reason in absent.items():
        print(f"{environment} is not available: {reason}")
    if options.prepare:
        return 0

    origin = provenance()
    found: dict[str, Any] = {}
    for key, row in chosen.items():
        result = measure(row, options.rounds, folder, commands)
        result["absent"] = missing(row, result, absent)
        found[key] = result | {name: origin[name] for name in ("commit", "date")}
        print(describe(result), flush=True)
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
