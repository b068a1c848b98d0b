"""Measure what normalising adds to the loading of photos: in PyTorch's DataLoader, and in one call of ours.

The demo's photos (500x375) become batches of 32 of 224x224, as in `loaders.py`: as bytes, or as normalised float32 with
channels before rows. Other cases leave out a part, so that the difference is what that part costs:

* PyTorch, "floats, not handed over": a worker normalises, but hands over the bytes; the arithmetic alone;
* PyTorch, "floats of any value": a worker hands over floats that nobody has computed; the hand-over alone;
* ours, "floats, by numpy": the bytes are normalised afterwards, in the same thread, instead of in the call.

Each runs in a process of its own, in turns, and the medians of the rounds count. The CPU time is that of all processes
of a case, in the program (user) and in the kernel (system), with the start of the process in it, which is the same for
the cases of one loader. No mark is set: this explains, and claims nothing.

Run it as `python benchmarks/normalising.py [--workers N] [--rounds N] [--batches N] [--json FILE]`.
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

WORK = Path(__file__).with_name("_normalising_work.py")
CASES = {
    "pytorch": ("bytes", "floats, not handed over", "floats of any value", "floats"),
    "ours": ("bytes", "floats", "floats, by numpy"),
}


def main() -> int:
    """Run the rounds and write the outcome. The exit status says whether every case ran."""
    parser = argparse.ArgumentParser(description="Measure what normalising adds.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each case (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=60, help="batches that a turn times (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="threads or processes (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    shared = {"folder": str(demo_photos(Console())), "workers": options.workers, "batches": options.batches}
    jobs = {
        (loader, case): Job((sys.executable,), WORK, {"loader": loader, "case": case, **shared})
        for loader, cases in CASES.items()
        for case in cases
    }
    medians, failed = take_turns(jobs, options.rounds)
    rows = [{"loader": loader, "case": case, **figures} for (loader, case), figures in medians.items()]
    for row in rows:
        cpu = row["user_ms_per_image"] + row["system_ms_per_image"]
        print(f"{row['loader']:<8} {row['case']:<26} {row['images_per_second']:7.0f} images/s {cpu:7.2f} CPU ms")
    for key, reason in failed.items():
        print(f"{', '.join(key)} is left out: {reason}")
    if options.json:
        result = {
            "provenance": provenance(),
            "rounds": options.rounds,
            "batches": options.batches,
            "workers": options.workers,
            "absent": {", ".join(key): reason for key, reason in failed.items()},
            "rows": rows,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
