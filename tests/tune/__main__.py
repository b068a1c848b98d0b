"""Tune random graphs in virtual time, and report how near to their best settings they come."""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from tests.tune.random_graphs import try_graph

_GOOD = 0.95


def main() -> int:
    """Run and report. Return the exit status: 1 if too many graphs are off, or one goes to and fro."""
    parser = argparse.ArgumentParser(prog="python -m tests.tune", description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first graph; the next ones follow")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the graphs")
    parser.add_argument("--show", type=int, default=10, help="how many of the worst to print")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.graphs)
    if arguments.jobs == 1:
        outcomes = list(map(try_graph, seeds))
    else:
        with ProcessPoolExecutor(arguments.jobs) as executor:
            outcomes = list(executor.map(try_graph, seeds, chunksize=8))
    for outcome in sorted(outcomes, key=lambda it: it.share)[: arguments.show]:
        print(json.dumps(asdict(outcome)))  # noqa: T201
    good = sum(outcome.share >= _GOOD for outcome in outcomes) / len(outcomes)
    settled = sorted(outcome.settled_after for outcome in outcomes)
    summary = {
        "graphs": len(outcomes),
        "share_of_graphs_with_95_percent": good,
        "most_turns": max(outcome.turns for outcome in outcomes),
        "settled_after_p50": settled[len(settled) // 2],
        "settled_after_p99": settled[int(0.99 * (len(settled) - 1))],
    }
    print(json.dumps(summary))  # noqa: T201
    return int(good < 0.99 or summary["most_turns"] > 2)


if __name__ == "__main__":
    raise SystemExit(main())
