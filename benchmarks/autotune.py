"""Compare pipelines that tune themselves with the best settings by hand, on planted workloads.

Each workload is built untouched, with `autotune=True`, and once for each setting of a grid: the same concurrency for
all stages, with as many threads, and with as many as all stages together could use. The tuned pipeline runs for
`--settle` seconds first. The grid's three best run again, in turns with the tuned one: all pipelines are alive, and a
loop reads one of them at a time, so other load on the machine falls on all of them. The median of the three best is
what counts: the best of a noisy grid is biased upwards.

Claims: the tuned pipeline reaches 92 % of it, and takes at most 1.1 times its CPU time for each item. And on waiting
ops, it changes nothing for `--quiet` seconds once it has settled, and has its rate again within 5 s after they got four
times slower.

Run it as `python benchmarks/autotune.py [--rounds N] [--settle S] [--quiet S] [--workloads NAME...] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from _autotune_work import WORKLOADS
from spdl.cli._common.provenance import provenance
from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _autotune_work import Workload

MARK, CPU_MARK, AGAIN_SECONDS = 0.92, 1.1, 5.0
# Seconds of a turn, and before it, while the buffers fill.
TURN, WARM = 0.7, 0.2


class Setting(NamedTuple):
    """Limits set by hand."""

    concurrency: int
    num_threads: int


class Contender:
    """A pipeline that is alive, and is read in turns."""

    def __init__(self, workload: Workload, setting: Setting | None) -> None:
        self.setting = setting
        self.rates: list[float] = []
        self.cpu: list[float] = []
        self._consumer = workload.consumer
        self.pipeline = build(workload.make(), setting)
        self.pipeline.start()
        self._items = self.pipeline.get_iterator()

    def read(self, seconds: float) -> tuple[int, float]:
        """Read for so long; return how many items came, and in how many seconds."""
        begin, count = time.perf_counter(), 0
        for _ in self._items:
            count += 1
            if self._consumer:
                time.sleep(self._consumer)
            if time.perf_counter() - begin >= seconds:
                break
        return count, time.perf_counter() - begin

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


def build(ops: Sequence[Callable[[Any], Any]], setting: Setting | None) -> Pipeline[Any]:
    """Build a pipeline that tunes itself, or has the limits that are given."""
    builder = PipelineBuilder[Any, Any]().add_source(itertools.count())
    for index, op in enumerate(ops):
        name = f"op{index}"
        builder = (
            builder.pipe(op, name=name) if setting is None else builder.pipe(op, name=name, concurrency=setting[0])
        )
    builder.add_sink()
    return builder.build(autotune=True) if setting is None else builder.build(num_threads=setting.num_threads)


def grid(workload: Workload) -> list[Setting]:
    """Return the settings by hand."""
    stages = len(workload.make())
    return sorted({Setting(each, each * many) for each in workload.levels for many in {1, stages}})


def compare(workload: Workload, rounds: int, settle: float) -> dict[str, Any]:
    """Tune a workload, and compare it with its best settings."""
    stop = threading.Event()
    beside = [threading.Thread(target=keep_reading, args=(workload, stop)) for _ in range(workload.beside)]
    for thread in beside:
        thread.start()
    tuned = Contender(workload, None)
    tuned.read(settle)
    settings = [Contender(workload, setting) for setting in grid(workload)]
    for each in settings:
        each.take_turn()
    settings.sort(key=lambda each: -each.rates[0])
    for each in settings[3:]:
        each.pipeline.stop()
    best = settings[:3]
    contenders = [tuned, *best]
    for each in contenders:
        each.forget()
    for index in range(rounds):
        for each in contenders if index % 2 else reversed(contenders):
            each.take_turn()
    stop.set()
    for each in contenders:
        each.pipeline.stop()
    for thread in beside:
        thread.join()
    rates, cpu = [median(each.rates) for each in best], [median(each.cpu) for each in best]
    found = tuned.pipeline.tuned()
    return {
        "title": workload.title,
        "tuned_per_second": median(tuned.rates),
        "best_per_second": {f"{each.setting}": rate for each, rate in zip(best, rates, strict=True)},
        "ratio": median(tuned.rates) / median(rates),
        "cpu_ratio": median(tuned.cpu) / median(cpu),
        "cpu_seconds_per_item": median(tuned.cpu),
        "found": {"concurrency": dict(found.concurrency), "num_threads": found.num_threads, "settled": found.settled},
        "reason": found.reason,
        "steps": [{"elapsed": step.elapsed, "reason": step.reason} for step in tuned.pipeline.tuning_log()],
    }


def keep_reading(workload: Workload, stop: threading.Event) -> None:
    """Read another pipeline of the kind that tunes itself, until it is enough."""
    other = Contender(workload, None)
    while not stop.is_set():
        other.read(0.1)
    other.pipeline.stop()


class Slowing:
    """An op that waits, and can be made to wait longer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, item: Any) -> Any:
        """Wait."""
        time.sleep(self.seconds)
        return item


def hold_still(quiet: float) -> dict[str, Any]:
    """Tune a waiting op with a loop of 4 ms, look whether it stays quiet, and slow the op down four times."""
    op = Slowing(0.02)
    pipeline = build([op], None)
    with pipeline.auto_stop():
        items = pipeline.get_iterator()

        def read(seconds: float) -> float:
            begin, count = time.perf_counter(), 0
            for _ in items:
                count += 1
                time.sleep(0.004)
                if time.perf_counter() - begin >= seconds:
                    break
            return count / (time.perf_counter() - begin)

        begin = time.perf_counter()
        while not pipeline.tuned().settled and time.perf_counter() - begin < 60:  # noqa: PLR2004 - seconds, far too many.
            read(0.2)
        settled_after, steps = time.perf_counter() - begin, len(pipeline.tuning_log())
        rate = read(quiet)
        changes = len(pipeline.tuning_log()) - steps
        op.seconds *= 4
        begin = time.perf_counter()
        while (again := read(0.5)) < MARK * rate and time.perf_counter() - begin < 60:  # noqa: PLR2004 - as above.
            pass
        return {
            "settled_after_seconds": settled_after,
            "quiet_seconds": quiet,
            "changes_while_quiet": changes,
            "per_second": rate,
            "per_second_again": again,
            "again_after_seconds": time.perf_counter() - begin,
            "found": dict(pipeline.tuned().concurrency),
        }


def judge(rows: dict[str, Any], still: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare the figures with the marks."""
    claims = []
    for name, row in rows.items():
        claims.append({"of": name, "figure": "ratio", "value": row["ratio"], "mark": MARK, "met": row["ratio"] >= MARK})
        cpu = row["cpu_ratio"]
        claims.append({"of": name, "figure": "cpu_ratio", "value": cpu, "mark": CPU_MARK, "met": cpu <= CPU_MARK})
    changes, again = still["changes_while_quiet"], still["again_after_seconds"]
    claims.append({"of": "still", "figure": "changes", "value": changes, "mark": 0, "met": changes == 0})
    claims.append(
        {"of": "still", "figure": "again", "value": again, "mark": AGAIN_SECONDS, "met": again <= AGAIN_SECONDS}
    )
    return claims


def main() -> int:
    """Run the workloads and write the outcome. The exit status says whether all claims hold."""
    parser = argparse.ArgumentParser(description="Compare tuned pipelines with the best settings by hand.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds to tune (default: %(default)s)")
    parser.add_argument("--quiet", type=float, default=60.0, help="seconds without a change (default: %(default)s)")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    load = os.getloadavg()
    rows = {}
    for name in options.workloads:
        row = rows[name] = compare(WORKLOADS[name], options.rounds, options.settle)
        print(f"{name:14} {row['ratio']:5.2f} of the best, {row['cpu_ratio']:5.2f} of its CPU time, {row['found']}")
        sys.stdout.flush()
    still = hold_still(options.quiet)
    print(f"still: {still}")
    result = {
        "provenance": provenance(),
        "load_average": {"before": load[0], "after": os.getloadavg()[0]},
        "rounds": options.rounds,
        "settle_seconds": options.settle,
        "rows": rows,
        "still": still,
        "claims": judge(rows, still),
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(each["met"] for each in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
