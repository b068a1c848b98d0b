"""Measure the loader that takes PyTorch's arguments against PyTorch's own, and against spdl 0.8.0's.

The contenders get the same dataset and arguments, each turn in a process of its own, in turns; the medians count.

* tiny: arrays as those of MNIST, in batches of 256. The mark is 0.9 of PyTorch without workers, 1.2 of PyTorch with as
  many workers, and 5 of spdl 0.8.0.
* first batch: a dataset of 1.2 million paths, 4 workers. The mark is 150 ms.
* photos: the demo's photos with Pillow, with as many workers as cores. The mark is 0.95 of PyTorch's rate at half of
  its memory, and 2.5 of its rate if the dataset loads with `spdl.io`.
* flipped: the same photos, turned over as PyTorch's generator says. Our loader takes processes for these, since threads
  would draw other numbers: what that costs is its rate beside that of threads.

Run it as `python benchmarks/dropin.py [--rounds N] [--seconds S] [--rows ROW...] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from _image_environments import peer
from _turns import Job, take_turns
from spdl._cores import available_cores
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos
from spdl.cli._demo.turn import REFERENCE, TORCH, PeerUnavailable

if TYPE_CHECKING:
    from _turns import Figures

WORK = Path(__file__).with_name("_dropin_work")
OWN = (sys.executable,)
CHOSEN, FORCED = "spdl-turbo, processes as chosen", "spdl-turbo, threads as asked for"
OURS, TORCHS, ALONE, SPAWNED = "spdl-turbo, threads", "PyTorch", "PyTorch, no workers", "PyTorch, spawn"
BEFORE = "spdl 0.8.0"


class Mark(NamedTuple):
    """What a row is to show.

    Attributes:
        of: The contender.
        figure: One of its figures.
        beside: The contender whose figure it is divided by. None takes the figure itself.
        least: The least value, or None.
        most: The most, or None.
    """

    of: str
    figure: str
    beside: str | None = None
    least: float | None = None
    most: float | None = None


MARKS = {
    "tiny": (
        Mark(OURS, "items_per_second", ALONE, least=0.9),
        Mark(OURS, "items_per_second", TORCHS, least=1.2),
        Mark(OURS, "items_per_second", BEFORE, least=5),
    ),
    "first batch": (
        Mark(OURS, "first_batch_ms", most=150),
        Mark(f"{OURS}, shuffled", "first_batch_ms", most=150),
        Mark(SPAWNED, "first_batch_ms", OURS),
    ),
    "photos": (
        Mark(OURS, "images_per_second", TORCHS, least=0.95),
        Mark(OURS, "memory_mib", TORCHS, most=0.5),
        Mark(f"{OURS}, spdl.io", "images_per_second", TORCHS),
        Mark(f"{OURS}, spdl.io in batches", "images_per_second", TORCHS, least=2.5),
    ),
    "flipped": (
        Mark(CHOSEN, "images_per_second", TORCHS, least=0.95),
        Mark(CHOSEN, "images_per_second", FORCED),
    ),
}


def list_works(row: str, folder: Path, seconds: float) -> dict[str, dict[str, Any]]:
    """Return the work of each contender in a row."""
    cores = max(1, int(available_cores()))
    if row == "tiny":
        tiny = {"work": "tiny", "workers": 2, "seconds": seconds}
        return {
            OURS: {**tiny, "loader": "spdl"},
            TORCHS: {**tiny, "loader": "torch"},
            ALONE: {**tiny, "loader": "torch", "workers": 0},
            BEFORE: {**tiny, "loader": "reference"},
        }
    if row == "first batch":
        paths = {"work": "paths", "workers": 4, "shuffle": False}
        return {
            OURS: {**paths, "loader": "spdl"},
            f"{OURS}, shuffled": {**paths, "loader": "spdl", "shuffle": True},
            TORCHS: {**paths, "loader": "torch"},
            f"{TORCHS}, shuffled": {**paths, "loader": "torch", "shuffle": True},
            SPAWNED: {**paths, "loader": "torch spawn"},
            BEFORE: {**paths, "loader": "reference"},
        }
    pictures = {"work": "pictures", "workers": cores, "seconds": seconds, "folder": str(folder), "dataset": "pillow"}
    if row == "flipped":
        pictures["dataset"] = "pillow, flipped"
        return {
            CHOSEN: {**pictures, "loader": "spdl"},
            FORCED: {**pictures, "loader": "spdl threads"},
            TORCHS: {**pictures, "loader": "torch"},
        }
    return {
        OURS: {**pictures, "loader": "spdl"},
        f"{OURS}, spdl.io": {**pictures, "loader": "spdl", "dataset": "spdl.io"},
        f"{OURS}, spdl.io in batches": {**pictures, "loader": "spdl", "dataset": "spdl.io, in batches"},
        TORCHS: {**pictures, "loader": "torch"},
        BEFORE: {**pictures, "loader": "reference"},
    }


def judge(row: str, medians: dict[str, Figures]) -> list[dict[str, Any]]:
    """Return what became of the marks of a row. A mark whose contenders did not run is left out."""
    verdicts = []
    for mark in MARKS[row]:
        if not {mark.of, mark.beside or mark.of} <= medians.keys():
            continue
        value = medians[mark.of][mark.figure]
        if mark.beside is not None:
            value /= medians[mark.beside][mark.figure]
        met = None
        if mark.least is not None or mark.most is not None:
            met = (mark.least is None or value >= mark.least) and (mark.most is None or value <= mark.most)
        verdicts.append({**mark._asdict(), "value": value, "met": met})
    return verdicts


def show(row: str, medians: dict[str, Figures], verdicts: list[dict[str, Any]]) -> None:
    """Print a row."""
    print(row)
    for name, figures in medians.items():
        print(f"  {name}: " + ", ".join(f"{key} {value:,.1f}" for key, value in figures.items()))
    for it in verdicts:
        beside = f" / {it['beside']}" if it["beside"] else ""
        verdict = {True: "met", False: "MISSED", None: "no mark"}[it["met"]]
        print(f"  {it['of']} {it['figure']}{beside} = {it['value']:.3g}: {verdict}")


def main() -> int:
    """Run the rounds, then print and write the outcome. The exit status says whether every mark is met."""
    parser = argparse.ArgumentParser(description="Measure the loader that takes PyTorch's arguments.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a turn lasts (default: %(default)s)")
    parser.add_argument("--rows", nargs="+", choices=list(MARKS), default=list(MARKS), metavar="ROW")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    console = Console()
    commands, absent = dict.fromkeys((OURS, CHOSEN, FORCED, TORCHS), OWN), {}
    try:
        commands[BEFORE] = peer("reference-torch", (*REFERENCE, *TORCH))(console)
    except PeerUnavailable as reason:
        absent[BEFORE] = str(reason)
        print(f"{BEFORE} is left out: {reason}")
    folder = demo_photos(console)
    rows: dict[str, Any] = {}
    for row in options.rows:
        works = list_works(row, folder, options.seconds)
        jobs = {name: Job(commands.get(name, OWN), WORK, work) for name, work in works.items() if name not in absent}
        medians, failed = take_turns(jobs, options.rounds)
        verdicts = judge(row, medians)
        show(row, medians, verdicts)
        for name, reason in failed.items():
            print(f"  {name} is left out: {reason}")
        # The folder is this machine's own.
        told = {name: {**work, "folder": folder.name} if "folder" in work else work for name, work in works.items()}
        rows[row] = {"works": told, "contenders": medians, "absent": failed, "claims": verdicts}
    if options.json:
        result = {"provenance": provenance(), "rounds": options.rounds, "absent": absent, "rows": rows}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    missed = [it for row in rows.values() for it in row["claims"] if it["met"] is False]
    broken = [name for row in rows.values() for name in row["absent"] if name.startswith(OURS)]
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
