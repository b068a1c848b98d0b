"""Compare pipelines that tune themselves with the best settings by hand, on planted workloads.

Each workload is built untouched, with `autotune=True`, and once for each setting of a grid: the same concurrency for
all stages, with as many threads, and with as many as all stages together could use. The tuned pipeline runs for
`--settle` seconds first. The grid's three best run again, in turns with the tuned one: all pipelines are alive, and a
loop reads one of them at a time, so other load on the machine falls on all of them. The median of the three best is
what counts: the best of a noisy grid is biased upwards. Where a workload is two pipelines, both are tuned or both have
the setting, and what both deliver counts: one that takes the cores from the other has won nothing.

Claims: the tuned pipeline reaches 92 % of it, takes at most 1.1 times its CPU time for each item, and keeps no more
bytes than it may. And once it has settled (the rows "still"), it changes nothing for `--quiet` seconds, and within 5 s
after its first op got four times slower it has its rate again, or where cores or the GIL are the limit the quarter of
it that can be had, for 10 s at least.

It takes some eleven minutes. Run it as `python benchmarks/autotune.py [--rounds N] [--settle S] [--quiet S]
[--rows NAME...] [--json FILE]`. Rows that the file has already and that do not run are kept in it, with where they came
from.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from _autotune_still import CASES, MARK
from _autotune_work import WORKLOADS
from _turns import Job, run_job
from spdl.cli._common.machine import provenance
from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _autotune_work import Workload

CPU_MARK, AGAIN_SECONDS = 1.1, 5.0
STILL = Path(__file__).with_name("_autotune_still.py")
ROWS = [*WORKLOADS, *CASES]
# Seconds of a turn, and before it, while the buffers fill.
TURN, WARM = 0.7, 0.2


class Setting(NamedTuple):
    """Limits set by hand."""

    concurrency: int
    num_threads: int


class Contender:
    """Pipelines that are alive, and are read in turns."""

    def __init__(self, workload: Workload, setting: Setting | None) -> None:
        self.setting = setting
        self.rates: list[float] = []
        self.cpu: list[float] = []
        self._consumer = workload.consumer
        self.pipelines = [build(workload.make(), setting, workload.max_bytes) for _ in range(workload.pipelines)]
        for pipeline in self.pipelines:
            pipeline.start()
        self._items = [pipeline.get_iterator() for pipeline in self.pipelines]

    def stop(self) -> None:
        """Stop the pipelines."""
        for pipeline in self.pipelines:
            pipeline.stop()

    def read(self, seconds: float) -> tuple[int, float]:
        """Read for so long; return how many items came, and in how many seconds."""
        counts = [0] * len(self._items)
        begin = time.perf_counter()
        others = [
            threading.Thread(target=self._read, args=(index, seconds, counts)) for index in range(1, len(self._items))
        ]
        for thread in others:
            thread.start()
        self._read(0, seconds, counts)
        for thread in others:
            thread.join()
        return sum(counts), time.perf_counter() - begin

    def _read(self, index: int, seconds: float, counts: list[int]) -> None:
        begin = time.perf_counter()
        for _ in self._items[index]:
            counts[index] += 1
            if self._consumer:
                time.sleep(self._consumer)
            if time.perf_counter() - begin >= seconds:
                break

    def take_turn(self) -> None:
        """Read for a turn, and note the rate and the CPU time."""
        self.read(WARM)
        cpu = time.process_time()
        count, seconds = self.read(TURN)
        self.rates.append(count / seconds)
        self.cpu.append((time.process_time() - cpu) / count)

    def forget(self) -> None:
        """Forget the turns so far."""
        self.rates, self.cpu = [], []


def build(ops: Sequence[Callable[[Any], Any]], setting: Setting | None, max_bytes: int | None = None) -> Pipeline[Any]:
    """Build a pipeline that tunes itself, or has the limits that are given."""
    builder = PipelineBuilder[Any, Any]().add_source(itertools.count())
    for index, op in enumerate(ops):
        name = f"op{index}"
        builder = (
            builder.pipe(op, name=name) if setting is None else builder.pipe(op, name=name, concurrency=setting[0])
        )
    builder.add_sink()
    if setting is None:
        return builder.build(autotune=True, max_bytes=max_bytes)
    return builder.build(num_threads=setting.num_threads, max_bytes=max_bytes)


def grid(workload: Workload) -> list[Setting]:
    """Return the settings by hand."""
    stages = len(workload.make())
    return sorted({Setting(each, each * many) for each in workload.levels for many in {1, stages}})


def compare(workload: Workload, rounds: int, settle: float) -> dict[str, Any]:
    """Tune a workload, and compare it with its best settings."""
    tuned = Contender(workload, None)
    tuned.read(settle)
    after_settling = found_by(tuned)
    settings = [Contender(workload, setting) for setting in grid(workload)]
    for each in settings:
        each.take_turn()
    settings.sort(key=lambda each: -each.rates[0])
    for each in settings[3:]:
        each.stop()
    best = settings[:3]
    contenders = [tuned, *best]
    for each in contenders:
        each.forget()
    for index in range(rounds):
        for each in contenders if index % 2 else reversed(contenders):
            each.take_turn()
    peak = max(pipeline.statistics().peak_bytes for pipeline in tuned.pipelines)
    for each in contenders:
        each.stop()
    rates, cpu = [median(each.rates) for each in best], [median(each.cpu) for each in best]
    return {
        "title": workload.title,
        "tuned_per_second": median(tuned.rates),
        "best_per_second": {f"{each.setting}": rate for each, rate in zip(best, rates, strict=True)},
        "ratio": median(tuned.rates) / median(rates),
        "cpu_ratio": median(tuned.cpu) / median(cpu),
        "cpu_seconds_per_item": median(tuned.cpu),
        **({} if workload.max_bytes is None else {"share_of_max_bytes": peak / workload.max_bytes}),
        "found_after_settling": after_settling,
        "found": found_by(tuned),
        "steps": [
            [{"elapsed": step.elapsed, "reason": step.reason} for step in pipeline.tuning_log()]
            for pipeline in tuned.pipelines
        ],
    }


def found_by(tuned: Contender) -> list[dict[str, Any]]:
    """Return what the tuners of a contender have found until now."""
    return [
        {
            "concurrency": dict(found.concurrency),
            "num_threads": found.num_threads,
            "settled": found.settled,
            "reason": found.reason,
        }
        for found in (pipeline.tuned() for pipeline in tuned.pipelines)
    ]


def hold_still(names: Sequence[str], quiet: float) -> dict[str, dict[str, Any]]:
    """Leave pipelines alone, each in a process of its own. All that hardly compute run at once."""

    def run(name: str) -> dict[str, Any]:
        return run_job(Job((sys.executable,), STILL, {"name": name, "quiet": quiet}))

    waiting = [name for name in names if not CASES[name].computes]
    with ThreadPoolExecutor(max(1, len(waiting))) as threads:
        found = dict(zip(waiting, threads.map(run, waiting), strict=True))
    return found | {name: run(name) for name in names if CASES[name].computes}


def judge(rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare the figures with the marks."""
    claims: list[dict[str, Any]] = []

    def claim(name: str, figure: str, least: float | None, most: float | None) -> None:
        value = rows[name][figure]
        met = (least is None or value >= least) and (most is None or value <= most)
        claims.append({"of": name, "figure": figure, "value": value, "least": least, "most": most, "met": met})

    for name, row in rows.items():
        if name in CASES:
            claim(name, "changes_while_quiet", None, 0)
            claim(name, "again_after_seconds", None, AGAIN_SECONDS)
            if "share_again" in row:
                claim(name, "per_second_again", MARK * row["share_again"] * row["per_second"], None)
        else:
            claim(name, "ratio", MARK, None)
            claim(name, "cpu_ratio", None, CPU_MARK)
            if "share_of_max_bytes" in row:
                claim(name, "share_of_max_bytes", None, 1.0)
    return claims


def main() -> int:
    """Run the rows and write the outcome. The exit status says whether all claims hold."""
    parser = argparse.ArgumentParser(description="Compare tuned pipelines with the best settings by hand.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds to tune (default: %(default)s)")
    parser.add_argument("--quiet", type=float, default=60.0, help="seconds without a change (default: %(default)s)")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="NAME", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    known = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else {}

    def note(measure: Callable[[], dict[str, dict[str, Any]]]) -> None:
        load = os.getloadavg()[0]
        for name, row in measure().items():
            row["provenance"], row["load_average"] = provenance(), {"before": load, "after": os.getloadavg()[0]}
            known[name] = row
            print(name, {key: value for key, value in row.items() if key not in {"steps", "provenance"}}, flush=True)

    for name in options.rows:
        if name in WORKLOADS:
            note(lambda name=name: {name: compare(WORKLOADS[name], options.rounds, options.settle)})
    note(lambda: hold_still([name for name in options.rows if name in CASES], options.quiet))
    rows = {name: known[name] for name in ROWS if name in known}
    result = {"rounds": options.rounds, "settle_seconds": options.settle, "rows": rows, "claims": judge(rows)}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    for each in result["claims"]:
        if not each["met"]:
            print("missed:", each)
    return 0 if all(each["met"] for each in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
