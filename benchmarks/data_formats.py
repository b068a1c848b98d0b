"""How formats of arrays scale with workers: items per second through a pipeline, by threads and by processes.

An item is an image of 3x640x480 and its labels of 640x480, of uint8 and random, 1.2 MB in all: two .npy files, a .npz
file stored or deflated, or a file of torch.save. Every figure is the median of rounds in turns, each in a process of
its own. This shows what happens and claims nothing; `arrays.py` has the marks.

Run it as `python benchmarks/data_formats.py [--rounds N] [--json FILE] [--plots FOLDER]`; `--draw FILE` draws the plots
of a recorded run. The reference (spdl 0.8.0) is installed into an environment of its own in the user's cache; where
that fails the benchmark says so and measures the others alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

from _alternating import run
from _data_formats_plots import draw
from spdl.cli._console import Console
from spdl.cli._peers import PeerUnavailable, reference_environment
from spdl.cli._provenance import provenance

WORK = Path(__file__).with_name("_arrays_work")
WORKERS = (1, 2, 4, 8, 16, 32)

# What each line of the plots is called, what it loads, and whether the reference does it.
LINES = {
    "npy, spdl-turbo": ("npy", False),
    "npy, spdl 0.8.0": ("npy", True),
    "npy, numpy": ("npy-numpy", False),
    "npz, spdl-turbo": ("npz", False),
    "npz, spdl 0.8.0": ("npz", True),
    "npz, numpy": ("npz-numpy", False),
    "npz deflated, spdl-turbo": ("npz-deflated", False),
    "npz deflated, spdl 0.8.0": ("npz-deflated", True),
    "npz deflated, numpy": ("npz-deflated-numpy", False),
    "torch.save, torch": ("torch", False),
}


def measure(rounds: int, items: int, reference: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the lines: by their name and by "threads" or "processes", the items per second for each of WORKERS."""
    own = (sys.executable,)
    lines: dict[str, Any] = {}
    for name, (_, theirs) in LINES.items():
        if theirs and reference is None:
            continue
        lines[name] = {mode: [[] for _ in WORKERS] for mode in ("threads", "processes")}
    for _ in range(rounds):
        for mode in ("threads", "processes"):
            for place, workers in enumerate(WORKERS):
                for name, line in lines.items():
                    load, theirs = LINES[name]
                    work = {"work": "pipelines.scale", "load": load, "mode": mode, "workers": workers, "items": items}
                    command = (reference if theirs else own) or own
                    line[mode][place].append(run(command, WORK, work)["items_per_second"])
                print(f"{mode}, {workers} workers: done", flush=True)
    return {
        name: {mode: [median(it) for it in points] for mode, points in line.items()} for name, line in lines.items()
    }


def table(result: dict[str, Any]) -> str:
    """Return the figures as a table in Markdown."""
    workers = result["workers"]
    rows = [
        f"| format, by | workers are | {' | '.join(map(str, workers))} |",
        "| --- | --- |" + " ---: |" * len(workers),
    ]
    for name, line in result["lines"].items():
        rows += [f"| {name} | {mode} | {' | '.join(f'{it:,.0f}' for it in points)} |" for mode, points in line.items()]
    return "\n".join(rows)


def main() -> None:
    """Measure, or read what was measured, and draw."""
    parser = argparse.ArgumentParser(description="Measure how formats of arrays scale with workers.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--items", type=int, default=300, help="items of a pipeline (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--plots", type=Path, help="draw data_formats.png and data_formats.html into this folder")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="measure nothing: draw what this file holds")
    options = parser.parse_args()
    if options.draw:
        result = json.loads(options.draw.read_text())
    else:
        reference = absent = None
        try:
            reference = reference_environment(Console()).command
        except PeerUnavailable as reason:
            absent = str(reason)
            print(f"spdl 0.8.0 is left out: {absent}")
        result = {
            "provenance": provenance(),
            "rounds": options.rounds,
            "items": options.items,
            "absent": absent,
            "load_average": os.getloadavg(),
            "workers": list(WORKERS),
            "lines": measure(options.rounds, options.items, reference),
        }
    print(table(result))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.plots:
        draw(result, table(result), options.plots)


if __name__ == "__main__":
    main()
