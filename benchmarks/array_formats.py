"""How fast arrays in npy, npz, compressed npz and PyTorch files in memory are loaded, by threads and by processes.

Claim, on a sample of an image and its labels (1.2 MB, the first document's), each contender in the pipeline that it
comes with, numpy and PyTorch in ours, each turn in a process of its own, all in turns, medians of the rounds: for npy,
npz and compressed npz this package loads more samples per second than numpy and than the reference (spdl 0.8.0), with
every number of threads. Processes are shown beside it: what they load is pickled on its way back, whoever loads it.

Run it as `python benchmarks/array_formats.py [--rounds N] [--workers N...] [--repeat N] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _turns import Job, take_turns
from spdl.cli._console import Console
from spdl.cli._peers import PeerUnavailable, reference_environment
from spdl.cli._provenance import provenance

WORK = Path(__file__).with_name("_formats_work.py")
OURS, NUMPY, REFERENCE, TORCH = "spdl-turbo", "numpy", "spdl 0.8.0", "PyTorch"
KINDS = ("npy", "npz", "npz compressed")

Row = dict[str, Any]
Key = tuple[str, str, int, str]
"""What is loaded, threads or processes, how many, and the contender."""


def judge(rows: list[Row]) -> list[Row]:
    """Compare our thread rows with those of the others."""
    rates = {
        (row["kind"], row["workers"], row["contender"]): row["samples_per_second"]
        for row in rows
        if row["mode"] == "threads"
    }
    return [
        {"kind": kind, "workers": workers, "beside": name, "value": ours / theirs, "met": ours > theirs}
        for (kind, workers, contender), ours in rates.items()
        if contender == OURS
        for name in (NUMPY, REFERENCE)
        if (theirs := rates.get((kind, workers, name)))
    ]


def make_jobs(numbers_of_workers: list[int], repeat: int) -> tuple[dict[Key, Job], dict[str, str]]:
    """Return what is measured, and why contenders are absent."""
    own = (sys.executable,)
    # A pool of processes is some twenty times slower.
    repeats = {"threads": repeat, "processes": max(1, repeat // 5)}
    contenders = [(OURS, own, "spdl", KINDS), (NUMPY, own, "numpy", KINDS)]
    absent = {}
    try:
        contenders.append((REFERENCE, reference_environment(Console()).command, "spdl", KINDS))
    except PeerUnavailable as reason:
        absent[REFERENCE] = str(reason)
    if find_spec("torch"):
        contenders.append((TORCH, own, "torch", ("torch",)))
    else:
        absent[TORCH] = "it is not installed here: pip install torch"
    jobs = {}
    for kind in (*KINDS, "torch"):
        for mode in ("threads", "processes"):
            for workers in numbers_of_workers:
                arguments = {"kind": kind, "mode": mode, "workers": workers, "repeat": repeats[mode]}
                for name, interpreter, library, kinds in contenders:
                    if kind in kinds:
                        jobs[kind, mode, workers, name] = Job(interpreter, WORK, {"library": library, **arguments})
    return jobs, absent


def report(rows: list[Row], verdicts: list[Row], failed: dict[Key, str], absent: dict[str, str]) -> None:
    """Print the table and what became of the claim."""
    for row in rows:
        rate, cpu = row["samples_per_second"], row["cpu_ms_per_sample"]
        print(
            f"{row['kind']:15} {row['mode']:10} {row['workers']:3}  {row['contender']:11}"
            f" {rate:12,.0f} samples/s {cpu:8.3f} CPU ms"
        )
    for key, words in failed.items():
        print(*key, "failed:", words)
    for name, reason in absent.items():
        print(f"{name} is left out: {reason}")
    for it in verdicts:
        verdict = "met" if it["met"] else "MISSED"
        print(f"{it['kind']}, {it['workers']} threads: {it['value']:.3g} times {it['beside']}: {verdict}")


def main() -> int:
    """Run the rounds, print and write the outcome; the exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Measure loading arrays from bytes in memory.")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help="workers to try")
    parser.add_argument(
        "--repeat", type=int, default=1000, help="samples in a turn, of processes a fifth (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    jobs, absent = make_jobs(options.workers, options.repeat)
    medians, failed = take_turns(jobs, options.rounds)
    names = ("kind", "mode", "workers", "contender")
    rows: list[Row] = [{**dict(zip(names, key, strict=True)), **each} for key, each in medians.items()]
    verdicts = judge(rows)
    report(rows, verdicts, failed, absent)
    if options.json:
        result = {
            "provenance": provenance(),
            "rounds": options.rounds,
            "absent": absent,
            "failed": [{**dict(zip(names, key, strict=True)), "why": why} for key, why in failed.items()],
            "rows": rows,
            "claims": verdicts,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(it["met"] for it in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
