"""Load to a GPU: JPEG by nvJPEG, folders, beside a training step, copies, and video by NVDEC.

Claims, on a GPU of the Hopper class with 16 cores: JPEGs of 500x375 in batches of 128, resized to 224 and normalised
to float16, at least 1.2 times torchvision's nvJPEG, which does not resize; a folder through the CPU to the device, at
least 10,000 images/s; beside ResNet-50 in bfloat16 a step at most 3 % slower than on a cached batch; copies from pinned
memory at 90 % of a bare pinned copy or more; 720p clips to 224x224 at least four times our CPU path. **None has been
measured yet**: no machine with a GPU was at hand.

Run it as `python benchmarks/gpu.py [ROW ...] [--photos FOLDER] [--clip FILE] [--rounds N] [--json FILE]`. It needs
PyTorch with CUDA, and torchvision for two rows. Without a GPU it says what is missing.

Each contender measures for 10 seconds, in `step` for 30, and its process starts anew in each round. Results are written
at the end, so where time is short, run one row after the other, each with a file of its own. A machine without network
needs `--photos` and `--clip`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from _turns import Job, take_turns
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos
from spdl.io.utils import cuda_info

WORK = Path(__file__).with_name("_gpu_work.py")

ROWS = {
    "jpeg": ("spdl-turbo", "torchvision, not resized"),
    "folder": ("spdl-turbo", "PyTorch"),
    "step": ("spdl-turbo", "a cached batch"),
    "copy": ("spdl-turbo", "a bare pinned copy"),
    "video": ("spdl-turbo, NVDEC", "spdl-turbo, CPU"),
}
"""The contenders of each row."""


def main() -> None:
    """Measure, print, and write the results if that is asked for."""
    parser = argparse.ArgumentParser(description="Measure loading to a GPU.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photos", type=Path, metavar="FOLDER", help="JPEGs; fetched and kept if none are named")
    parser.add_argument("--clip", type=Path, metavar="FILE", help="a 720p H.264 video; fetched if none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    info = cuda_info()
    if not info.devices:
        reason = f"this benchmark needs a GPU. {info.driver.reason}"
        if options.json is None:
            sys.exit(reason)
        # `make bench-full` runs it everywhere, and keeps the reason with the other results.
        print(reason)
        write(options.json, {"medians": {}, "failed": {"all": reason}, "rounds": 0, "provenance": provenance()})
        return
    rows = options.rows or list(ROWS)
    console = Console()
    places = {
        "photos": str(options.photos or demo_photos(console)) if set(rows) & {"jpeg", "folder", "step"} else "",
        "clip": str(options.clip or default_clip(console)) if "video" in rows else "",
    }

    jobs = {
        (row, contender): Job([sys.executable], WORK, {"row": row, "contender": contender, **places})
        for row in rows
        for contender in ROWS[row]
    }
    medians, failed = take_turns(jobs, options.rounds)
    for (row, contender), figures in medians.items():
        shown = "  ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
        print(f"{row:8}{contender:28}{shown}")
    for (row, contender), reason in failed.items():
        print(f"{row:8}{contender:28}did not run: {reason}")
    if options.json:
        found = {row: {name: medians[row, name] for name in ROWS[row] if (row, name) in medians} for row in rows}
        missing = {f"{row}, {name}": reason for (row, name), reason in failed.items()}
        origin = provenance() | {"gpu": str(info)}
        result = {"medians": found, "failed": missing, "rounds": options.rounds, "provenance": origin}
        write(options.json, result)


def write(file: Path, result: dict[str, object]) -> None:
    """Write results."""
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def default_clip(console: Console) -> Path:
    """Return a 720p clip, fetched once."""
    from _media_clips import SHORT, media_clips  # noqa: PLC0415 - only for one row.

    return media_clips(console) / SHORT


if __name__ == "__main__":
    main()
