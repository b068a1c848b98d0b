"""What the engine itself costs: items per second through stages that do nothing, and efficiency where they sleep.

Claims, with `add_sink(100)`, measured beside the released reference (spdl 0.8.0) in one alternating run, each round in
a process of its own, medians:

* 3 no-op stages of concurrency 4 on 8 threads: at least 100 times the reference's items per second;
* three graphs of sleeping stages: at least 0.95 of min(c_i / d_i, threads / sum d_i), where c_i is a stage's
  concurrency and d_i its op's duration measured alone, and nobody overtaken by more than the items in flight.

Run it as `python benchmarks/engine.py [--rounds N] [--json FILE]`. The reference is installed into an environment of
its own in the user's cache; where that fails the benchmark says so and measures this project alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from _engine_work import SLEEPING
from spdl.cli._console import Console
from spdl.cli._peers import PeerUnavailable, reference_environment
from spdl.cli._provenance import provenance

WORK = Path(__file__).with_name("_engine_work.py")
OURS, REFERENCE = "spdl-turbo", "spdl 0.8.0"

# Items per round, ours and the reference's: half a second of work, and of sleeping graphs enough to forget the start.
ROWS: dict[str, tuple[int, int]] = {
    "3 no-op stages": (150_000, 2_000),
    "3 no-op stages in input order": (60_000, 2_000),
    "3 no-op stages and aggregate(32)": (120_000, 2_000),
    "1 async stage": (40_000, 4_000),
    **dict.fromkeys(SLEEPING, (3_000, 1_500)),
}
RATIO_MARK = 100.0
SHARE_MARK = 0.95
# Slots of the stages, 2 places in each of the queues between them: what can be ahead of an item.
IN_FLIGHT = {work: sum(slots) + 2 * len(slots) for work, (_, slots, _) in SLEEPING.items()}


def run(command: tuple[str, ...], work: str, n: int) -> dict[str, Any]:
    """Measure one round in a process of its own."""
    done = subprocess.run([*command, str(WORK), work, str(n)], check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure; of `overtaken_by_at_most`, the largest."""
    summary = {key: median(each[key] for each in rounds) for key in rounds[0]}
    summary["overtaken_by_at_most"] = max(each["overtaken_by_at_most"] for each in rounds)
    return summary


def compare(row: dict[str, Any]) -> dict[str, Any]:
    """Add how many times as many items we pass as the reference does, where it ran."""
    if REFERENCE in row:
        row["ratio"] = row[OURS]["items_per_second"] / row[REFERENCE]["items_per_second"]
    return row


def describe(work: str, row: dict[str, Any]) -> str:
    """One line for a row."""
    ours = row[OURS]
    words = [f"{work}: {ours['items_per_second']:,.0f} items/s"]
    if "ratio" in row:
        words.append(f"{REFERENCE} {row[REFERENCE]['items_per_second']:,.0f}, ratio {row['ratio']:.1f}")
    if work in SLEEPING:
        words.append(f"{ours['share_of_bound']:.3f} of the bound {ours['bound']:,.0f}")
        words.append(f"overtaken by at most {ours['overtaken_by_at_most']:.0f}")
    return "; ".join(words)


def judge(work: str, row: dict[str, Any]) -> list[str]:
    """The claims that a row does not bear out."""
    ours = row[OURS]
    missed = []
    if work == "3 no-op stages" and row.get("ratio", RATIO_MARK) < RATIO_MARK:
        missed.append(f"{work}: {row['ratio']:.1f} times the reference, mark {RATIO_MARK:.0f}")
    if work in SLEEPING and ours["share_of_bound"] < SHARE_MARK:
        missed.append(f"{work}: {ours['share_of_bound']:.3f} of the bound, mark {SHARE_MARK}")
    if work in SLEEPING and ours["overtaken_by_at_most"] > IN_FLIGHT[work]:
        missed.append(f"{work}: overtaken by {ours['overtaken_by_at_most']}, in flight {IN_FLIGHT[work]}")
    return missed


def main() -> int:
    """Run the rounds, print and write the outcome; the exit status says whether the claims hold."""
    parser = argparse.ArgumentParser(description="Measure the engine's overhead and efficiency.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per row (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()

    contenders: dict[str, tuple[str, ...]] = {OURS: (sys.executable,)}
    absent = None
    try:
        contenders[REFERENCE] = reference_environment(Console()).command
    except PeerUnavailable as reason:
        absent = str(reason)
        print(f"{REFERENCE} is left out: {absent}")

    rows: dict[str, dict[str, Any]] = {}
    missed: list[str] = []
    for work, sizes in ROWS.items():
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for (name, command), n in zip(contenders.items(), sizes, strict=False):
                rounds[name].append(run(command, work, n))
        rows[work] = compare({name: medians(each) for name, each in rounds.items()})
        print(describe(work, rows[work]), flush=True)
        missed += judge(work, rows[work])
    for line in missed:
        print(f"MISSED {line}")
    if options.json:
        result = {"provenance": provenance(), "rounds": options.rounds, "absent": absent, "rows": rows}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
