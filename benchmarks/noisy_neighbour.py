"""How evenly a training loop's steps run beside a loader that gives it as many photos as every other one.

The stand-in for a training loop computes for 4 ms of every 10 ms, calibrated right before and after each turn, and
takes a normalised batch of 32 photos every tenth step: 320 images per second from whichever loader, as each waits for
the loop.
Each has as many workers as there are cores, works in an environment and a process of its own, in turns; medians of the
rounds.

Claim: the 50th, 95th and 99th percentile of the steps' times beside ours are within 10 % of the lowest beside any
loader that keeps up. What the steps take with no loader at all stands beside it.

Run it as `python benchmarks/noisy_neighbour.py [--rounds N] [--steps N] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from _loader_contenders import BARE, CONTENDERS, OURS, find_contenders
from _turns import Figures, Job, JobFailedError, run_job
from spdl._cores import available_cores
from spdl.cli._console import Console
from spdl.cli._photos import demo_photos
from spdl.cli._provenance import provenance

WORK = Path(__file__).with_name("_loaders_work")
CALIBRATE = Job((sys.executable,), Path(__file__).with_name("_engine_work"), {"work": "training.calibrate"})
NO_LOADER = "no loader"
PERCENTILES = ("p50_ms", "p95_ms", "p99_ms")
MARK = 1.1
RATE = 320.0
LATE = 0.98
"""The share of the rate below which a loader has not kept up: the fewer it loads, the less it disturbs."""


def keeps_up(figures: Figures) -> bool:
    """Whether the loop had its batches in time."""
    return figures["images_per_second"] >= LATE * RATE


def judge(contenders: dict[str, Figures]) -> list[dict[str, Any]]:
    """Compare the percentiles beside each of ours with the lowest beside any loader."""
    claims = []
    for figure in PERCENTILES:
        among = {name: it[figure] for name, it in contenders.items() if name != NO_LOADER and keeps_up(it)}
        if not among:
            continue
        lowest = min(among, key=lambda name: among[name])
        for name in OURS:
            if name not in contenders:
                continue
            value = contenders[name][figure] / among[lowest]
            met = value <= MARK and name in among
            claims.append(
                {
                    "figure": figure,
                    "of": name,
                    "beside": lowest,
                    "value": value,
                    "relation": "at most",
                    "mark": MARK,
                    "met": met,
                }
            )
    return claims


def main() -> int:
    """Run the rounds and write the outcome; the exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Measure how loaders disturb a training loop.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each loader (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=500, help="steps of a turn (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=max(1, int(available_cores())), help="default: the cores")
    names = [name for name in CONTENDERS if name != BARE]
    parser.add_argument("--contenders", nargs="+", choices=names, default=names, metavar="NAME", help="default: all")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    console = Console()
    commands, absent = find_contenders(options.contenders, console)
    photos = str(demo_photos(console))
    found: dict[str, list[Figures]] = {NO_LOADER: [], **{name: [] for name in commands}}
    step_turns = 0
    for name in console.track(options.rounds * list(found), "noisy neighbour"):
        if name == NO_LOADER:
            # Once a round: what else the machine does changes.
            step_turns = run_job(CALIBRATE)["step_turns"]
        elif name in absent:
            continue
        work = {
            "work": "beside.train",
            "loader": None if name == NO_LOADER else CONTENDERS[name].program,
            "keywords": {} if name == NO_LOADER else CONTENDERS[name].keywords,
            "folder": photos,
            "workers": options.workers,
            "steps": options.steps,
            "step_turns": step_turns,
        }
        try:
            found[name].append(run_job(Job(commands.get(name, (sys.executable,)), WORK, work)))
        except JobFailedError as reason:
            absent[name] = str(reason)
    contenders = {
        name: {figure: median(each[figure] for each in turns) for figure in turns[0]}
        for name, turns in found.items()
        if name not in absent
    }
    result = {
        "provenance": provenance(),
        "rounds": options.rounds,
        "steps": options.steps,
        "workers": options.workers,
        "absent": absent,
        "contenders": {
            name: it | ({} if name == NO_LOADER else {"keeps_up": keeps_up(it)}) for name, it in contenders.items()
        },
        "claims": judge(contenders),
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(it["met"] for it in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
