"""How evenly a training loop's steps run beside a loader that gives it as many photos as every other one.

The stand-in for a training loop computes for 3 ms of every 10 ms, calibrated before each round, and takes a normalised
batch of 32 photos every tenth step: 320 images per second from whichever loader, as each waits for the loop. In each
turn as many steps run with no loader, right before and after, and the percentiles are told as multiples of theirs. Each
works in an environment and a process of its own, in turns, with one worker and with as many as there are
cores; medians of the rounds. With which number it keeps up and disturbs the slowest steps least, by their 99th
percentile, that is its best, and is what counts.

Claim: the 50th, 95th and 99th percentile of the steps' times beside ours are within 10 % of the lowest beside any
loader that keeps up. How far from 1 they are with no loader at all is what chance does.

Run it as `python benchmarks/noisy_neighbour.py [--rounds N] [--steps N] [--workers N...] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from _job_server import JobServer
from _loader_contenders import BARE, CONTENDERS, OURS, find_contenders
from _turns import Figures, Job, JobFailedError, run_job
from spdl._cores import available_cores
from spdl.cli._console import Console
from spdl.cli._photos import demo_photos
from spdl.cli._provenance import provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

Row = dict[str, Any]

OWN = (sys.executable,)
WORK = Path(__file__).with_name("_loaders_work")
CALIBRATE = Job(OWN, Path(__file__).with_name("_engine_work"), {"work": "training.calibrate"})
NO_LOADER = "no loader"
PERCENTILES = ("p50", "p95", "p99")
MARK = 1.1
RATE = 320.0
LATE = 0.98
"""The share of the rate below which a loader has not kept up: the fewer it loads, the less it disturbs."""


def keeps_up(figures: Mapping[str, Any]) -> bool:
    """Whether the loop had its batches in time."""
    return figures["images_per_second"] >= LATE * RATE


def judge(contenders: Mapping[str, Row]) -> list[dict[str, Any]]:
    """Compare the percentiles beside each of ours with the lowest beside any loader."""
    claims = []
    for figure in PERCENTILES:
        among = {name: it[figure] for name, it in contenders.items() if name != NO_LOADER and keeps_up(it)}
        if not among:
            continue
        lowest = min(among, key=lambda name: among[name])
        for name in OURS:
            if name not in contenders:
                continue
            value = contenders[name][figure] / among[lowest]
            met = value <= MARK and name in among
            claims.append(
                {
                    "figure": figure,
                    "of": name,
                    "beside": lowest,
                    "value": value,
                    "relation": "at most",
                    "mark": MARK,
                    "met": met,
                }
            )
    return claims


def at_their_best(rows: Sequence[Row]) -> dict[str, Row]:
    """Return of each contender the row in which it keeps up and the 99th percentile is lowest, or else the fastest."""

    def rank(row: Row) -> tuple[bool, float]:
        late = not keeps_up(row)
        return late, -row["images_per_second"] if late else row["p99"]

    names = dict.fromkeys(row["contender"] for row in rows)
    return {name: min((row for row in rows if row["contender"] == name), key=rank) for name in names}


class Rounds:
    """The turns of all contenders, each in one process that is there from the first to the last.

    Attributes:
        found: The figures of each turn, by contender and number of workers.
        absent: Why contenders are missing.
    """

    def __init__(self, commands: Mapping[str, tuple[str, ...]], absent: Mapping[str, str], photos: str) -> None:
        self.found: dict[tuple[str, int], list[Figures]] = {}
        self.absent = dict(absent)
        self._photos = photos
        self._servers = {name: JobServer(commands.get(name, OWN), WORK) for name in (NO_LOADER, *commands)}

    def __enter__(self) -> Self:
        """Have all import what they need."""
        loaders = {name: server for name, server in self._servers.items() if name != NO_LOADER}
        for name, server in loaders.items():
            server.send({"work": "steps.get_ready", "loader": CONTENDERS[name].program})
        for name, server in loaders.items():
            try:
                server.receive()
            except JobFailedError as reason:
                self.absent[name] = str(reason)
        return self

    def __exit__(self, *_: object) -> None:
        """End their processes."""
        for server in self._servers.values():
            server.close()

    def take(self, name: str, workers: int, steps: int, step_turns: int) -> None:
        """Train beside one of them, or beside none."""
        loader = CONTENDERS.get(name)
        work = {
            "work": "beside.train",
            "loader": loader and loader.program,
            "keywords": loader.keywords if loader else {},
            "folder": self._photos,
            "workers": workers,
            "steps": steps,
            "step_turns": step_turns,
        }
        try:
            self.found.setdefault((name, workers), []).append(self._servers[name].run(work))
        except JobFailedError as reason:
            self.absent[name] = str(reason)

    def is_hopeless(self, name: str, workers: int) -> bool:
        """Whether it did not keep up before."""
        return any(not keeps_up(it) for it in self.found.get((name, workers), []))

    def rows(self) -> list[Row]:
        """Return the medians of those that failed in no turn."""
        return [
            {
                "contender": name,
                "workers": workers,
                **{figure: median(each[figure] for each in turns) for figure in turns[0]},
            }
            for (name, workers), turns in self.found.items()
            if name not in self.absent
        ]


def main() -> int:
    """Run the rounds and write the outcome; the exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Measure how loaders disturb a training loop.")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each loader (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=150, help="steps of a turn (default: %(default)s)")
    parser.add_argument(
        "--workers",
        type=int,
        nargs="+",
        default=sorted({1, max(1, int(available_cores()))}),
        metavar="N",
        help="default: one, and as many as there are cores",
    )
    names = [name for name in CONTENDERS if name != BARE]
    parser.add_argument("--contenders", nargs="+", choices=names, default=names, metavar="NAME", help="default: all")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    console = Console()
    commands, absent = find_contenders(options.contenders, console)
    turns = [(NO_LOADER, 0)] + [(name, it) for name in commands for it in options.workers]
    step_turns = 0
    with Rounds(commands, absent, str(demo_photos(console))) as rounds:
        for name, workers in console.track(options.rounds * turns, "noisy neighbour"):
            if name == NO_LOADER:
                # Once a round: what else the machine does changes.
                step_turns = run_job(CALIBRATE)["step_turns"]
            elif name in rounds.absent or (workers < max(options.workers) and rounds.is_hopeless(name, workers)):
                continue
            rounds.take(name, workers, options.steps, step_turns)
    rows = [row | {"keeps_up": keeps_up(row)} for row in rounds.rows()]
    contenders = at_their_best(rows)
    result = {
        "provenance": provenance(),
        "rounds": options.rounds,
        "steps": options.steps,
        "workers": options.workers,
        "absent": rounds.absent,
        "rows": rows,
        "contenders": contenders,
        "claims": judge(contenders),
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(it["met"] for it in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
