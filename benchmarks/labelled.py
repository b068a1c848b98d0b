"""Measure the image loader: labelled, shuffled, augmented and normalised batches of photos.

The demo's photos (500x375) become batches of 32 with their labels: cropped at random and resized to 224x224, flipped,
normalised, float32 with channels before rows. In the second row their colours change as well. Each contender runs in a
process of its own, in turns, and the medians of the rounds count.

* `spdl-turbo, ImageLoader`: the loader, in as many threads as workers.
* `spdl-turbo, load_image_batch`: the bare calls in a thread pool, with the same crops and flips, and no labels. What
  the loader does besides is all that may be lost: the mark is 0.94.
* `PyTorch DataLoader, Pillow`: the same steps as torchvision's transforms do them with Pillow, in as many processes.
  The mark is 4 times its speed. (torchvision itself has no CPU build to install here. With Pillow images, its
  RandomResizedCrop, ColorJitter, ToTensor and Normalize are these calls.)

Run it as `python benchmarks/labelled.py [--workers N] [--rounds N] [--seconds S] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from _turns import Job, take_turns
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos

LOADER, BARE, TORCH = "spdl-turbo, ImageLoader", "spdl-turbo, load_image_batch", "PyTorch DataLoader, Pillow"
CONTENDERS = {LOADER: "loader", BARE: "bare", TORCH: "torch"}
STEPS = ("crops and flips", "colours too")
MARKS = {BARE: 0.94, TORCH: 4.0}
WORK = Path(__file__).with_name("_labelled_work.py")


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how fast the loader is beside each other contender, and whether that meets the mark."""
    speeds = {(row["step"], row["contender"]): row["images_per_second"] for row in rows}
    claims = []
    for step in STEPS:
        for name, mark in MARKS.items():
            if (step, LOADER) in speeds and (step, name) in speeds:
                value = speeds[step, LOADER] / speeds[step, name]
                claims.append({"step": step, "beside": name, "value": value, "mark": mark, "met": value >= mark})
    return claims


def main() -> int:
    """Run the rounds and write the outcome. The exit status says whether every mark is met."""
    parser = argparse.ArgumentParser(description="Measure the image loader.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a turn lasts (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="threads or processes (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    folder = str(demo_photos(Console()))
    jobs = {
        (step, name): Job(
            (sys.executable,),
            WORK,
            {
                "folder": folder,
                "work": work,
                "colors": step == STEPS[1],
                "workers": options.workers,
                "seconds": options.seconds,
            },
        )
        for step in STEPS
        for name, work in CONTENDERS.items()
    }
    medians, failed = take_turns(jobs, options.rounds)
    rows = [{"step": step, "contender": name, **figures} for (step, name), figures in medians.items()]
    claims = judge(rows)
    for row in rows:
        print(f"{row['step']:<16} {row['contender']:<28} {row['images_per_second']:8.0f} images/s")
    for claim in claims:
        verdict = "met" if claim["met"] else "MISSED"
        print(f"{claim['step']}: {claim['value']:.3f} of {claim['beside']}, mark {claim['mark']}: {verdict}")
    for (step, name), reason in failed.items():
        print(f"{step}, {name} is left out: {reason}")
    if options.json:
        absent = {f"{step}, {name}": reason for (step, name), reason in failed.items()}
        result = {
            "provenance": provenance(),
            "rounds": options.rounds,
            "seconds": options.seconds,
            "workers": options.workers,
            "absent": absent,
            "rows": rows,
            "claims": claims,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    ours_failed = any(name != TORCH for _, name in failed)
    return 1 if ours_failed or not all(claim["met"] for claim in claims) else 0


if __name__ == "__main__":
    sys.exit(main())
