"""Measure how fast whole loaders decode, resize and batch photos: the second document's program, all in one run.

Claims, on the demo's photos (500x375), in batches of 32 of 224x224. Each contender counts at the best of the numbers of
workers that are tried. Each turn is a process of its own, all take turns, and the medians of the rounds count.
On fewer than 16 cores:

* the reference's own flow (demux, decode, aggregate, convert) loads with this package at least 2.5 times the images of
  the reference (spdl 0.8.0) and 2 times those of PyTorch's DataLoader with Pillow, at no more than 0.37 times the
  reference's CPU time per image;
* `load_image_batch`, one call per batch, loads at least 3 times and 2.4 times as many.

On 16 cores or more:

* the flow loads at least 0.55 of the images that libjpeg-turbo decodes on as many threads, without reading or resizing;
* `load_image_batch` loads at least 2.7 times the images of PyTorch's DataLoader.

The flow pads and is bicubic, as is the reference's default, and so is our batch call. PyTorch stretches bilinearly, as
in that program, which is less work.

Run it as `python benchmarks/preprocessing.py [--rounds N] [--workers N...] [--passes N] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from _turns import Job, best_of_each, is_ours, take_turns
from spdl._cores import available_cores
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos
from spdl.cli._demo.turn import PeerUnavailable, reference_environment, torch_environment

WORK = Path(__file__).with_name("_preprocessing_work.py")
MANY_CORES = 16
FLOW, BATCH = "spdl-turbo, image by image", "spdl-turbo, load_image_batch"
REFERENCE, TORCH, BARE = "spdl 0.8.0, image by image", "PyTorch DataLoader, Pillow", "libjpeg-turbo, bare decode"

CLAIMS_ON_FEW_CORES = (
    (FLOW, "images_per_second", REFERENCE, "at least", 2.5),
    (FLOW, "images_per_second", TORCH, "at least", 2.0),
    (BATCH, "images_per_second", REFERENCE, "at least", 3.0),
    (BATCH, "images_per_second", TORCH, "at least", 2.4),
    (FLOW, "cpu_ms_per_image", REFERENCE, "at most", 0.37),
)
CLAIMS_ON_MANY_CORES = (
    (FLOW, "images_per_second", BARE, "at least", 0.55),
    (BATCH, "images_per_second", TORCH, "at least", 2.7),
)


def contenders(console: Console) -> tuple[dict[str, tuple[tuple[str, ...], str]], dict[str, str]]:
    """Return the interpreter and the key of each contender, and why others are absent."""
    own = (sys.executable,)
    found = {FLOW: (own, "seed"), BATCH: (own, "batch"), BARE: (own, "bare")}
    absent = {}
    makers = (
        (REFERENCE, reference_environment, "seed"),
        (TORCH, partial(torch_environment, install=True), "torch"),
    )
    for name, environment, key in makers:
        try:
            found[name] = (environment(console).command, key)
        except PeerUnavailable as reason:
            absent[name] = str(reason)
    return found, absent


def judge(best: dict[str, dict[str, float]], cores: float) -> list[dict[str, Any]]:
    """Check the figures against the claims for this number of cores."""
    verdicts = []
    for name, figure, beside, relation, mark in CLAIMS_ON_MANY_CORES if cores >= MANY_CORES else CLAIMS_ON_FEW_CORES:
        if name in best and beside in best:
            value = best[name][figure] / best[beside][figure]
            met = value >= mark if relation == "at least" else value <= mark
            verdicts.append(
                {
                    "contender": name,
                    "figure": figure,
                    "beside": beside,
                    "value": value,
                    "relation": relation,
                    "mark": mark,
                    "met": met,
                }
            )
    return verdicts


def main() -> int:
    """Run the rounds, then print and write the outcome. The exit status says whether the claims hold."""
    cores = available_cores()
    default = [8, 16, 24, 32] if cores >= MANY_CORES else [1, 2, 4]
    parser = argparse.ArgumentParser(description="Measure whole loaders on JPEG photos.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=default, metavar="N", help="numbers of workers to try"
    )
    parser.add_argument("--passes", type=int, default=4, help="passes over the photos in a turn (default: %(default)s)")
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files (default: the demo's)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    console = Console()
    folder = options.photos or demo_photos(console)
    found, absent = contenders(console)
    jobs = {
        (name, workers): Job(
            interpreter,
            WORK,
            {"contender": key, "workers": workers, "folder": str(folder), "passes": options.passes},
        )
        for name, (interpreter, key) in found.items()
        for workers in options.workers
    }
    medians, failed = take_turns(jobs, options.rounds)
    for (name, workers), figures in medians.items():
        shown = "  ".join(f"{key} {value:,.4g}" for key, value in figures.items())
        print(f"{name:30} {workers:3} workers  {shown}")
    for (name, workers), words in failed.items():
        print(f"{name:30} {workers:3} workers  failed: {words}")
    for name, reason in absent.items():
        print(f"{name} is left out: {reason}")
    verdicts = judge(best_of_each(medians, "images_per_second"), cores)
    for it in verdicts:
        verdict = "met" if it["met"] else "MISSED"
        shown = f"{it['contender']}, {it['figure']} / {it['beside']} = {it['value']:.3g}"
        print(f"{shown}, {it['relation']} {it['mark']}: {verdict}")
    if options.json:
        result = {
            "provenance": provenance(),
            "rounds": options.rounds,
            "absent": absent,
            "failed": [{"contender": name, "workers": workers, "why": why} for (name, workers), why in failed.items()],
            "rows": [{"contender": name, "workers": workers, **each} for (name, workers), each in medians.items()],
            "claims": verdicts,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(is_ours(name) for name, _ in failed) or not all(it["met"] for it in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
