"""Measure jobs of vision: the same augmentation by `ImageLoader`, and by torchvision or Albumentations in workers.

The demo's photos (500x375) become normalised float32 in batches of 32, shuffled:

* `classification`: a random crop of 224x224 and a flip;
* `simclr`: two views of 224x224 with a crop, a flip, colours, gray, a blur and solarize;
* `dino`: two such views with larger crops, and six of 96x96 with small ones;
* `segmentation`: a random crop of 512x512 and a flip, of the image and of a mask with a palette;
* `detection`: the whole image in 640x640 with gray borders, and a flip, with five boxes and their labels.

The contenders get the same probabilities and ranges. torchvision's v2 transforms and Albumentations run in PyTorch's
DataLoader, in as many processes as the loader has threads, and each contender in a process of its own, in turns. The
figure is how many images a CPU-second loads, which other work on the machine changes little; the medians count. The
marks are speeds beside torchvision: 5 for `simclr`, 4 for `dino`, 3.5 for `segmentation` and 3 for `detection`; and 3
beside Albumentations for `segmentation`.

Run it as `python benchmarks/vision.py [--jobs JOB ...] [--rounds N] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from _image_environments import MAKERS, OWN, find_environments, peer
from _turns import Job, take_turns
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos
from spdl.cli._demo.turn import TORCH, install_torch

OURS = "spdl-turbo"
ENVIRONMENTS = {
    OURS: MAKERS[OWN],
    "torchvision": MAKERS["torchvision"],
    "albumentations": peer("albumentations", ("albumentations>=2.0", *TORCH), install_torch),
}
PEERS = ("torchvision", "albumentations")
MARKS: dict[str, dict[str, float]] = {
    "classification": {},
    "simclr": {"torchvision": 5.0},
    "dino": {"torchvision": 4.0},
    "segmentation": {"torchvision": 3.5, "albumentations": 3.0},
    "detection": {"torchvision": 3.0},
}
WORK = Path(__file__).with_name("_vision_work.py")
BESIDE = Path(__file__).parents[1] / "tests" / "repository"


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many times as fast the loader is as each peer, and whether that meets the mark, if there is one."""
    speeds = {(row["job"], row["contender"]): row["images_per_cpu_second"] for row in rows}
    claims = []
    for job, marks in MARKS.items():
        for beside in PEERS:
            if (job, OURS) in speeds and (job, beside) in speeds:
                value, mark = speeds[job, OURS] / speeds[job, beside], marks.get(beside)
                met = None if mark is None else value >= mark
                claims.append({"job": job, "beside": beside, "value": value, "mark": mark, "met": met})
    return claims


def main() -> int:
    """Run the rounds and write the outcome. The exit status says whether every mark is met."""
    parser = argparse.ArgumentParser(description="Measure jobs of vision.")
    parser.add_argument("--jobs", nargs="+", choices=MARKS, default=list(MARKS), help="which (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a turn lasts (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="threads or processes (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    console = Console()
    commands, absent = find_environments(list(ENVIRONMENTS), console, ENVIRONMENTS)
    shared = {
        "folder": str(demo_photos(console)),
        "workers": options.workers,
        "seconds": options.seconds,
        "beside": str(BESIDE),
    }
    jobs = {
        (job, name): Job(command, WORK, {"job": job, "contender": name, **shared})
        for job in options.jobs
        for name, command in commands.items()
    }
    medians, failed = take_turns(jobs, options.rounds)
    rows = [{"job": job, "contender": name, **figures} for (job, name), figures in medians.items()]
    claims = judge(rows)
    for row in rows:
        print(f"{row['job']:<16} {row['contender']:<16} {row['images_per_cpu_second']:8.1f} images per CPU-second")
    for claim in claims:
        verdict = {None: "no mark", True: "met", False: "MISSED"}[claim["met"]]
        mark = "" if claim["mark"] is None else f" (>= {claim['mark']})"
        print(f"{claim['job']}: {claim['value']:.2f} times {claim['beside']}{mark}: {verdict}")
    absent |= {", ".join(key): reason for key, reason in failed.items()}
    for key, reason in absent.items():
        print(f"{key} is left out: {reason}")
    if options.json:
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
    ours_failed = any(name == OURS for _, name in failed)
    return 1 if ours_failed or any(claim["met"] is False for claim in claims) else 0


if __name__ == "__main__":
    sys.exit(main())
