"""Measure how array formats scale with workers: items per second through a pipeline, with threads and processes.

An item is an image of 3x640x480 and its labels of 640x480, random uint8, 1.2 MB in all. It comes as two .npy files, a
.npz file stored or deflated, or a file of torch.save. Each contender loads it in its own pipeline, numpy and PyTorch in
ours. Every figure is the median of rounds in turns. In each round a contender has one process for threads and one for
processes.

Claim: for npy, npz and deflated npz this package loads more items per second than numpy and than the reference (spdl
0.8.0), with every number of threads. Processes are shown beside them. With processes, every loader's results are
pickled on their way back. `arrays.py` measures the calls themselves.

Run it as `python benchmarks/data_formats.py [--rounds N] [--json FILE] [--plots FOLDER]`. `--draw FILE` draws the plots
of a recorded run. The reference (spdl 0.8.0) is installed into an environment of its own in the user's cache. If that
fails, the benchmark says so and measures the others alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from _data_formats_plots import draw
from _turns import Figures, Job, JobFailedError, is_ours, run_job, track, why_left_out
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.turn import PeerUnavailable, reference_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

WORK = Path(__file__).with_name("_arrays_work")
WORKERS = (1, 2, 4, 8, 16, 32)
MODES = ("threads", "processes")
OURS = "spdl-turbo"
# The key of each figure of a turn in the result.
FIELDS = {"lines": "items_per_second", "cpu_ms": "cpu_ms_per_item", "peak_mib": "peak_mib_of_the_main_process"}

# The name of each line of the plots, the load that it stands for, and whether the reference does it.
LINES = {
    f"npy, {OURS}": ("npy", False),
    "npy, spdl 0.8.0": ("npy", True),
    "npy, numpy": ("npy-numpy", False),
    f"npz, {OURS}": ("npz", False),
    "npz, spdl 0.8.0": ("npz", True),
    "npz, numpy": ("npz-numpy", False),
    f"npz deflated, {OURS}": ("npz-deflated", False),
    "npz deflated, spdl 0.8.0": ("npz-deflated", True),
    "npz deflated, numpy": ("npz-deflated-numpy", False),
    "torch.save, torch": ("torch", False),
}


def measure(
    rounds: int, seconds: float, counts: Sequence[int], reference: tuple[str, ...] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Let the work of each line be done in turns.

    Returns:
        The lines of every figure: by name and by "threads" or "processes", the median for each of the counts. Also the
        error messages of lines that failed.
    """
    own = (sys.executable,)
    names = [name for name, (load, theirs) in LINES.items() if not (reference is None if theirs else lacks(load))]
    found: dict[tuple[str, str, int], list[Figures]] = {}
    failed: dict[str, str] = {}
    turns = [(mode, name) for _ in range(rounds) for mode in MODES for name in names]
    for mode, name in track(turns, "data formats"):
        if name in failed:
            continue
        load, theirs = LINES[name]
        work = {"work": "pipelines.scale", "load": load, "mode": mode, "counts": counts, "seconds": seconds}
        command = (reference if theirs else own) or own
        try:
            each = run_job(Job(command, WORK, work))["counts"]
        except JobFailedError as reason:
            failed[name] = why_left_out(name, reason)
            continue
        for workers, figures in zip(counts, each, strict=True):
            found.setdefault((name, mode, workers), []).append(figures)
    lines = {
        field: {
            name: {
                mode: [median(each[figure] for each in found[name, mode, workers]) for workers in counts]
                for mode in MODES
            }
            for name in names
            if name not in failed
        }
        for field, figure in FIELDS.items()
    }
    return lines, failed


def lacks(load: str) -> bool:
    """Return whether a load needs PyTorch and PyTorch is not installed here."""
    return load == "torch" and find_spec("torch") is None


def judge(lines: dict[str, Any], counts: Sequence[int]) -> list[dict[str, Any]]:
    """Compare our threads with numpy's and the reference's."""
    return [
        {"kind": kind, "workers": workers, "beside": by, "value": ours / theirs, "met": ours > theirs}
        for kind in ("npy", "npz", "npz deflated")
        for by in ("numpy", "spdl 0.8.0")
        if {f"{kind}, {OURS}", f"{kind}, {by}"} <= lines.keys()
        for workers, ours, theirs in zip(
            counts, lines[f"{kind}, {OURS}"]["threads"], lines[f"{kind}, {by}"]["threads"], strict=True
        )
    ]


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


def main() -> int:
    """Measure, or read earlier results, and draw them. The exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Measure how formats of arrays scale with workers.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.4, help="how long a turn lasts (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS), metavar="N")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--plots", type=Path, help="draw data_formats.png and data_formats.html into this folder")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="measure nothing: draw what this file holds")
    options = parser.parse_args()
    if options.draw:
        result = json.loads(options.draw.read_text())
    else:
        reference = None
        absent = {}
        console = Console()
        try:
            reference = reference_environment(console).command
        except PeerUnavailable as missing:
            absent["spdl 0.8.0"] = str(missing)
        if lacks("torch"):
            absent["torch.save, torch"] = "PyTorch is not installed here: pip install 'spdl-turbo[torch]'"
        measured, failed = measure(options.rounds, options.seconds, options.workers, reference)
        absent |= failed
        for name, reason in absent.items():
            print(f"{name} is left out: {reason}")
        result = {
            "provenance": provenance(),
            "rounds": options.rounds,
            "seconds": options.seconds,
            "absent": absent,
            "load_average": os.getloadavg(),
            "workers": options.workers,
            **measured,
            "claims": judge(measured["lines"], options.workers),
        }
    print(table(result))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.plots:
        draw(result, table(result), options.plots)
    missed = [it for it in result["claims"] if not it["met"]]
    for it in missed:
        print(f"MISSED {it['kind']}, {it['workers']} threads: {it['value']:.3g} times {it['beside']}", file=sys.stderr)
    return 1 if missed or any(map(is_ours, result["absent"] or ())) else 0


if __name__ == "__main__":
    sys.exit(main())
