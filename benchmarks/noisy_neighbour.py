"""Measure how evenly a training loop's steps run beside a loader, while all loaders deliver the same rate of photos.

Every 10 ms, the stand-in for a training loop computes for 3 ms (where the machine is as fast as it gets, which is
calibrated before each round). Every tenth step it takes a normalised batch of 32 photos. Each loader thus delivers 320
images per second, as it waits for the loop. In each turn as many steps run with no loader, right before and after, and
the percentiles are given as multiples of theirs. Each loader works in an environment and a process of its own, in
turns, with one worker and with as many as there are cores, and the medians of the rounds count. A loader's best number
of workers, which is what counts, is the one with which it keeps up and disturbs the slowest steps least, by their 99th
percentile. `--tries` says how many rounds decide that, so that a short run spends the others on that number alone.

Claim: the 50th, 95th and 99th percentile of the steps' times beside ours are within 10 % of the lowest beside any
loader that keeps up. Their distance from 1 with no loader at all shows the effect of chance.

Run it as `python benchmarks/noisy_neighbour.py [--rounds N] [--tries N] [--steps N] [--workers N...] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from _job_server import JobServer
from _loader_contenders import BARE, CONTENDERS, OURS, find_contenders
from _turns import Figures, Job, JobFailedError, is_ours, run_job, track, why_left_out
from spdl._cores import available_cores
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Row = dict[str, Any]

OWN = (sys.executable,)
WORK = Path(__file__).with_name("_loaders_work")
CALIBRATE = Job(OWN, Path(__file__).with_name("_engine_work"), {"work": "training.calibrate"})
NO_LOADER = "no loader"
PERCENTILES = ("p50", "p95", "p99")
MARK = 1.1
RATE = 320.0
LATE = 0.98
"""The share of the rate below which a loader has not kept up. The less it loads, the less it disturbs."""


def judge(contenders: Mapping[str, Row]) -> list[dict[str, Any]]:
    """Compare the percentiles beside each of ours with the lowest beside any loader."""
    claims = []
    for figure in PERCENTILES:
        among = {name: it[figure] for name, it in contenders.items() if name != NO_LOADER and it["keeps_up"]}
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
    """Return each contender's row that keeps up with the lowest 99th percentile, or else its fastest row.

    Only rows with the most turns are considered, as the others were abandoned.
    """

    def rank(row: Row) -> tuple[int, bool, float]:
        late = not row["keeps_up"]
        return -row["turns"], late, -row["images_per_second"] if late else row["p99"]

    names = dict.fromkeys(row["contender"] for row in rows)
    return {name: min((row for row in rows if row["contender"] == name), key=rank) for name in names}


class Rounds:
    """The turns of all contenders. Each has one process from the first turn to the last.

    A number of workers that was late once is not tried again, unless it is the highest. After `tries` turns with each
    number, only the best one goes on.

    Attributes:
        found: The figures of each turn, by contender and number of workers.
        absent: The reasons why contenders are missing.
    """

    def __init__(
        self, commands: Mapping[str, tuple[str, ...]], photos: str, workers: Sequence[int], tries: int
    ) -> None:
        self.found: dict[tuple[str, int], list[Figures]] = {}
        self.absent: dict[str, str] = {}
        self._commands = {NO_LOADER: OWN, **commands}
        self._photos = photos
        self._most = max(workers)
        self._tries = tries
        self._servers: dict[str, JobServer] = {}

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Start all processes and let them import their modules, until the block ends."""
        with ExitStack() as servers:
            for name, command in self._commands.items():
                self._servers[name] = JobServer(command, WORK)
                servers.callback(self._servers[name].close)
            loaders = {name: server for name, server in self._servers.items() if name != NO_LOADER}
            for name, server in loaders.items():
                server.send({"work": "steps.get_ready", "loader": CONTENDERS[name].program})
            for name, server in loaders.items():
                try:
                    server.receive()
                except JobFailedError as reason:
                    self.absent[name] = why_left_out(name, reason)
            yield

    def take(self, name: str, workers: int, steps: int, step_turns: int) -> None:
        """Train beside one loader, or beside none."""
        if name in self.absent or self._is_given_up(name, workers):
            return
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
            self.absent[name] = why_left_out(name, reason)

    def rows(self) -> list[Row]:
        """Return the medians of contenders that never failed, with the number of turns and whether each keeps up."""
        rows: list[Row] = []
        all_turns = max(map(len, self.found.values()), default=0)
        for (name, workers), turns in self.found.items():
            if name not in self.absent:
                medians = {figure: median(each[figure] for each in turns) for figure in turns[0]}
                keeps_up = in_time(medians) and (len(turns) == all_turns or all(map(in_time, turns)))
                rows.append(
                    {"contender": name, "workers": workers, "turns": len(turns), "keeps_up": keeps_up, **medians}
                )
        return rows

    def _is_given_up(self, name: str, workers: int) -> bool:
        turns = self.found.get((name, workers), [])
        if len(turns) >= self._tries:
            return bool(at_their_best(self.rows())[name]["workers"] != workers)
        return name != NO_LOADER and workers < self._most and not all(map(in_time, turns))


def in_time(figures: Figures) -> bool:
    """Return whether the loop had its batches in time."""
    return figures["images_per_second"] >= LATE * RATE


def main() -> int:
    """Run the rounds and write the outcome. The exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Measure how loaders disturb a training loop.")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each loader (default: %(default)s)")
    parser.add_argument(
        "--tries", type=int, help="rounds that try all numbers of workers, before the best alone (default: all)"
    )
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
    tries = options.rounds if options.tries is None else options.tries
    if min(tries, options.rounds) < 1:
        parser.error(f"--tries and --rounds are at least 1, not {tries} and {options.rounds}")
    console = Console()
    commands, absent = find_contenders(options.contenders, console)
    turns = [(NO_LOADER, 0)] + [(name, it) for name in commands for it in options.workers]
    step_turns = 0
    rounds = Rounds(commands, str(demo_photos(console)), options.workers, tries)
    with rounds.prepared():
        for name, workers in track(options.rounds * turns, "noisy neighbour"):
            if name == NO_LOADER:
                # Once per round, because other load on the machine changes.
                try:
                    step_turns = run_job(CALIBRATE)["step_turns"]
                except JobFailedError as reason:
                    sys.exit(f"noisy neighbour: the machine's speed could not be measured: {reason}")
            rounds.take(name, workers, options.steps, step_turns)
    rows = rounds.rows()
    contenders = at_their_best(rows)
    result = {
        "provenance": provenance(),
        "rounds": options.rounds,
        "tries": tries,
        "steps": options.steps,
        "workers": options.workers,
        "absent": absent | rounds.absent,
        "rows": rows,
        "contenders": contenders,
        "claims": judge(contenders),
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(map(is_ours, result["absent"])) or not all(it["met"] for it in result["claims"]) else 0


if __name__ == "__main__":
    sys.exit(main())
