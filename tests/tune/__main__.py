"""Tune random graphs in virtual time, and report how near to their best settings they come.

With `--json FILE`, the outcomes of other graphs that the file has already are kept: so a long run can be made in parts.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.tune.random_graphs import Outcome, try_graph

import spdl

_GOOD = 0.95
# So many of the graphs have to come so near to their best, with so many changes of direction at most.
_MARK = 0.99
_TURNS = 2


def main() -> int:
    """Run and report. Return the exit status: 1 if too many graphs are off, or one goes to and fro."""
    parser = argparse.ArgumentParser(prog="python -m tests.tune", description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first graph; the next ones follow")
    parser.add_argument("--show", type=int, default=10, help="how many of the worst to print")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    arguments = parser.parse_args()
    outcomes = [try_graph(seed) for seed in range(arguments.seed, arguments.seed + arguments.graphs)]
    for outcome in sorted(outcomes, key=lambda it: it.share)[: arguments.show]:
        print(json.dumps(asdict(outcome)))  # noqa: T201
    parts: list[dict[str, Any]] = []
    if arguments.json and arguments.json.exists():
        seeds = {outcome.seed for outcome in outcomes}
        parts = [
            part
            for part in json.loads(arguments.json.read_text(encoding="utf-8"))["parts"]
            if seeds.isdisjoint(it["seed"] for it in part["outcomes"])
        ]
    parts.append({"provenance": _provenance(), "outcomes": [_recorded(outcome) for outcome in outcomes]})
    summary = _summary([it for part in parts for it in part["outcomes"]])
    print(json.dumps(summary))  # noqa: T201
    if arguments.json:
        arguments.json.write_text(json.dumps({"summary": summary, "parts": parts}) + "\n", encoding="utf-8")
    return int(summary["share_of_graphs_with_95_percent"] < _MARK or summary["most_turns"] > _TURNS)


def _provenance() -> dict[str, Any]:
    """Return what the outcomes depend on, which are the same on each machine."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return {
        "version": spdl.__version__,
        "commit": found.stdout.strip() or None,
        "command": shlex.join(sys.orig_argv[1:]),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _recorded(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "share": round(outcome.share, 4),
        "turns": outcome.turns,
        "settled_after": round(outcome.settled_after, 2) if outcome.settled_after < float("inf") else None,
    }


def _summary(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    settled = sorted(it["settled_after"] for it in outcomes if it["settled_after"] is not None)
    return {
        "graphs": len(outcomes),
        "share_of_graphs_with_95_percent": sum(it["share"] >= _GOOD for it in outcomes) / len(outcomes),
        "worst": min(it["share"] for it in outcomes),
        "most_turns": max(it["turns"] for it in outcomes),
        "settled": len(settled),
        "settled_after_p50": settled[len(settled) // 2],
        "settled_after_p99": settled[int(0.99 * (len(settled) - 1))],
    }


if __name__ == "__main__":
    raise SystemExit(main())
