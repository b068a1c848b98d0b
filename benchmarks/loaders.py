"""Measure how fast whole loaders deliver photos: ours and others, at four steps, with several numbers of workers.

The demo's photos (500x375) are read from files, decoded and resized to 224x224 photo by photo ("decode"), made into
batches of 32 ("batch"), normalised as float32 with channels before rows ("normalise") and copied to the GPU
("transfer", if there is a GPU). Every contender does the same steps to the same shapes and dtypes, and its first batch
must look like Pillow's. All stretch; a contender whose bilinear filter has no antialiasing uses area averaging. Each
runs in an environment and a process of its own, in turns, and the medians of the rounds count. The limit is shown
beside them: libjpeg-turbo decoding on as many threads, from memory and without resizing.

A row is lost if another loader is faster than ours, each at its best number of workers. It is shown like the others. A
contender that cannot be installed or fails is listed with the reason.

Run it as `python benchmarks/loaders.py [--rounds N] [--seconds S] [--workers N...] [--other-steps best] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _loader_contenders import CONTENDERS, OURS, find_contenders
from _loader_turns import MAIN_STEP, STEPS, Turns, all_cases, some_cases
from _turns import track
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _loader_contenders import Contender


def best_workers(rows: Iterable[dict[str, Any]], name: str, step: str) -> int | None:
    """Return the number of workers with which a contender loads most. None if it has no figures."""
    own = [row for row in rows if (row["contender"], row["step"]) == (name, step)]
    return max(own, key=lambda row: row["images_per_second"])["workers"] if own else None


def judge(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each step by how much our fastest loader leads each other loader, each at its best."""
    verdicts = []
    for step in STEPS:
        fastest: dict[str, float] = {}
        for row in rows:
            if row["step"] == step:
                name = row["contender"]
                fastest[name] = max(row["images_per_second"], fastest.get(name, 0.0))
        ours = max((name for name in OURS if name in fastest), key=lambda name: fastest[name], default=None)
        if ours is not None:
            verdicts += [
                {"step": step, "of": ours, "beside": name, "value": fastest[ours] / it, "met": fastest[ours] >= it}
                for name, it in fastest.items()
                if name not in OURS
            ]
    return verdicts


def describe(contender: Contender, version: str, difference: float | None) -> dict[str, Any]:
    """Return the description of a contender for the record."""
    return {
        "workers": contender.workers,
        "resize": contender.resize,
        "version": version,
        "levels_from_pillow": difference,
    }


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line. None takes that of the program."""
    parser = argparse.ArgumentParser(description="Measure whole loaders of JPEG photos.")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a case lasts (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32], metavar="N")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS, help="default: all")
    parser.add_argument(
        "--other-steps",
        choices=("all", "best"),
        default="all",
        help=f"the numbers of workers for steps other than {MAIN_STEP} (default: %(default)s)",
    )
    names = list(CONTENDERS)
    parser.add_argument("--contenders", nargs="+", choices=names, default=names, metavar="NAME", help="default: all")
    parser.add_argument("--prepare", action="store_true", help="make the environments and photos, and stop")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    return parser.parse_args(arguments)


def take_round(
    turns: Turns, options: argparse.Namespace, steps: Sequence[str], best: dict[str, int], name: str
) -> None:
    """Let one contender have its turn in a round."""
    if options.other_steps == "all":
        # Each number of workers has its own process, so that no memory is left over from other numbers.
        for workers in options.workers:
            turns.take(name, all_cases(name, steps, [workers]))
        return
    turns.take(name, some_cases(name, steps, options.workers, best.get(name)))
    found = best_workers(turns.rows(), name, MAIN_STEP)
    if found:
        # The first round decides, so that all rounds measure the same cases.
        best.setdefault(name, found)


def main() -> int:
    """Run the rounds and write the outcome. The exit status says whether every row is won."""
    options = parse_options()
    console = Console()
    commands, absent = find_contenders(options.contenders, console)
    photos = demo_photos(console)
    if options.prepare:
        for name, reason in absent.items():
            console.print(f"{name} is left out: {reason}")
        return 0
    steps = list(options.steps)
    if "transfer" in steps and shutil.which("nvidia-smi") is None:
        steps.remove("transfer")
        absent["all: transfer"] = "this machine has no NVIDIA GPU"
    turns = Turns(photos, options.seconds, commands, absent)
    best: dict[str, int] = {}
    with turns.one_process_each() if options.other_steps == "best" else nullcontext():
        for name in track(options.rounds * options.contenders, "loaders"):
            if name not in turns.absent:
                take_round(turns, options, steps, best, name)
    rows = turns.rows()
    result = {
        "provenance": provenance(),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "processes": "one for each number of workers" if options.other_steps == "all" else "one for all",
        "absent": turns.absent,
        "contenders": {
            name: describe(it, turns.versions[name], turns.differences.get(name))
            for name, it in CONTENDERS.items()
            if name in turns.versions and name not in turns.absent
        },
        "rows": rows,
        "claims": judge(rows),
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    # A step that cannot run here is in `absent`, too, under another name.
    failed = any(name in result["absent"] for name in OURS)
    return 1 if failed or not all(it["met"] for it in result["claims"]) else 0


if __name__ == "__main__":
    sys.exit(main())
