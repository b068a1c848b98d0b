"""Kill the workers of regions, and the processes that have such, at all moments: what is lost, how long it takes.

Claims: of 200 kills by SIGKILL, half of them under each policy of a region, every one is dealt with within a second. A
worker that dies fails the pipeline, or is replaced: then every item comes once. If the pipeline's process dies, all of
its processes end. Nothing is left of any of them: no process, no descriptor, no entry in /dev/shm. What was delivered
before stays whole.

Run it as `python benchmarks/region_kills.py [--kills N] [--seed N] [--json FILE]`; it takes some three minutes.
`scripts/concurrency_page.py` writes the recorded run into docs/concurrency.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from _region_kills_work import MOMENTS, Numbers, build, is_whole
from spdl.cli._common.machine import provenance
from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from _region_kills_work import Item, Policy

POLICIES: tuple[Policy, ...] = ("fail", "rerun")
WORKER, PARENT = "worker", "parent"
PROCESSES = (1, 2)
MARK_SECONDS = 1.0
# How long anything may take before it is given up, and how long what has ended may take to be gone.
LONGEST_SECONDS = 60.0
SETTLE_SECONDS = 10.0
# The kill comes so long after the first item, at most.
LATEST_SECONDS = 0.2

_DRIVER = Path(__file__).with_name("_region_kills_driver.py")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where named shared memory would be.
# Every process that is started here inherits it, and can be found by it whoever its parent is.
_MARK = "SPDL_REGION_KILLS"


@dataclass
class Outcome:
    """What became of some kills.

    Attributes:
        seconds: For each kill, how long it took: until the reader was told of the failure; the longest that it waited
            for an item from the kill on; or until all processes of the killed one were gone.
        lost: Items that should have come and did not.
        repeated: Items that came more than once.
        broken: Items whose content had changed.
        wrong: Pipelines that ended otherwise than their policy says.
    """

    seconds: list[float] = field(default_factory=list)
    lost: int = 0
    repeated: int = 0
    broken: int = 0
    wrong: int = 0

    def add(self, other: Outcome) -> None:
        """Add what became of other kills."""
        self.seconds += other.seconds
        self.lost += other.lost
        self.repeated += other.repeated
        self.broken += other.broken
        self.wrong += other.wrong

    def figures(self) -> dict[str, Any]:
        """Return the figures."""
        ordered = sorted(self.seconds)
        return {
            "kills": len(ordered),
            "median_seconds": statistics.median(ordered),
            "p95_seconds": ordered[int(0.95 * (len(ordered) - 1) + 0.5)],
            "longest_seconds": ordered[-1],
            "lost": self.lost,
            "repeated": self.repeated,
            "broken": self.broken,
            "wrong": self.wrong,
        }


class Killer:
    """Kills a worker at a random moment, and lets the source go on."""

    def __init__(self, numbers: Numbers, drawn: random.Random) -> None:
        self._numbers = numbers
        self._delay = drawn.random() * LATEST_SECONDS
        self._choice = drawn.random()
        self._pids: set[int] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.killed_at = 0.0

    def saw(self, item: Item, count: int) -> None:
        """Note an item that came from a worker, and how many have come."""
        self._pids.add(item[1])
        moment = self._numbers.moment
        if count == (moment.before if moment.quiet else 1):
            self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ready.set()
        self._thread.join()

    def _run(self) -> None:
        self._ready.wait()
        time.sleep(self._delay)
        pids = sorted(self._pids)
        if pids:
            self.killed_at = time.perf_counter()
            os.kill(pids[int(self._choice * len(pids))], signal.SIGKILL)
        self._numbers.killed.set()


def kill_worker(policy: Policy, name: str, processes: int, drawn: random.Random) -> Outcome:
    """Kill a worker of a pipeline of this process."""
    moment = MOMENTS[name]
    numbers = Numbers(moment)
    came: list[int] = []
    kept: list[Item] = []
    outcome = Outcome()
    failed, longest = False, 0.0
    try:
        with Killer(numbers, drawn) as killer, build(numbers, policy, processes).auto_stop() as pipeline:
            last = 0.0
            for item in pipeline.get_iterator(timeout=LONGEST_SECONDS):
                now = time.perf_counter()
                if killer.killed_at:
                    longest = max(longest, now - max(last, killer.killed_at))
                last = now
                came.append(item[0])
                killer.saw(item, len(came))
                outcome.broken += not is_whole(item)
                if moment.kept:
                    kept.append(item)
            outcome.wrong += bool(pipeline.failures())
    except PipelineFailure as failure:
        longest = time.perf_counter() - killer.killed_at
        failed = all("has died" in str(error) for error in failure.exceptions)
    outcome.wrong += failed != (policy == "fail")
    outcome.seconds.append(longest)
    outcome.repeated += len(came) - len(set(came))
    if policy == "rerun":
        outcome.lost += len(set(range(moment.before + moment.after)) - set(came))
    for item in kept:
        outcome.broken += not is_whole(item)
        # The memory is the reader's, whoever has made it.
        item[2][:] = 255
    return outcome


def kill_parent(policy: Policy, name: str, processes: int, drawn: random.Random) -> Outcome:
    """Kill a process that reads a pipeline with workers, and wait until all of its processes are gone."""
    moment = MOMENTS[name]
    mark = f"{os.getpid()}-{drawn.getrandbits(64)}"
    driver = subprocess.Popen(
        [sys.executable, _DRIVER, policy, name, str(processes)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {_MARK: mark},
    )
    assert driver.stdout is not None
    lines = [driver.stdout.readline() for _ in range(moment.before if moment.quiet else 1)]
    time.sleep(drawn.random() * LATEST_SECONDS)
    every = marked(mark)
    begin = time.perf_counter()
    driver.kill()
    while any(map(runs, every)):
        if time.perf_counter() - begin > LONGEST_SECONDS:
            break
        time.sleep(0.001)
    seconds = time.perf_counter() - begin
    driver.wait()
    lines += driver.stdout.readlines()
    driver.stdout.close()
    came = [line.split() for line in lines if line.endswith("\n")]
    # The pipeline, its workers, and what starts and cleans up after them.
    wrong = len(every) <= processes or bool(marked(mark))
    repeated = len(came) - len({number for number, _ in came})
    return Outcome([seconds], repeated=repeated, broken=sum(whole != "1" for _, whole in came), wrong=wrong)


def marked(mark: str) -> list[int]:
    """Return the processes that have inherited a mark."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if wanted in environment.split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if runs(pid)]


def runs(pid: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass(frozen=True)
class Held:
    """What there is of everything that must not be left."""

    processes: int
    descriptors: int
    shared_memory: frozenset[str]

    def has_more_than(self, other: Held) -> bool:
        """Return whether something has been left."""
        return (
            self.processes > other.processes
            or self.descriptors > other.descriptors
            or not self.shared_memory <= other.shared_memory
        )


def held() -> Held:
    """Return what there is now."""
    names = frozenset(path.name for path in _SHARED_MEMORY.iterdir()) if _SHARED_MEMORY.is_dir() else frozenset()
    return Held(len(marked(str(os.getpid()))), len(list(Path("/proc/self/fd").iterdir())), names)


def kill_all(policy: Policy, kills: int, drawn: random.Random) -> dict[str, Any]:
    """Kill so many times under a policy. The moments, the victims and the numbers of workers take turns.

    Returns:
        The figures by the victim and the number of workers, and what there was of what must not be left, before and
        after.
    """
    cases = list(product(MOMENTS, (WORKER, PARENT), PROCESSES))
    found: dict[tuple[str, str, int], Outcome] = {case: Outcome() for case in cases}
    before = held()
    for number in range(kills):
        name, victim, processes = case = cases[number % len(cases)]
        kill = kill_worker if victim == WORKER else kill_parent
        found[case].add(kill(policy, name, processes, drawn))
        told = found[case]
        print(
            f"{policy}, {victim} of {processes}, {name}: {told.seconds[-1]:.3f} s, {told.lost} lost, {told.repeated}"
            f" repeated, {told.broken} broken, {told.wrong} wrong",
            flush=True,
        )
    after = held()
    settled = time.perf_counter() + SETTLE_SECONDS
    while after.has_more_than(before) and time.perf_counter() < settled:
        time.sleep(0.05)
        after = held()
    victims: dict[str, Any] = {}
    for victim, processes in product((WORKER, PARENT), PROCESSES):
        moments = {name: found[name, victim, processes] for name in MOMENTS}
        every = Outcome()
        for outcome in moments.values():
            every.add(outcome)
        figures = every.figures() | {"moments": {name: it.figures() for name, it in moments.items()}}
        victims[f"{victim}, {processes}"] = figures
    return {
        "victims": victims,
        "processes": [before.processes, after.processes],
        "descriptors": [before.descriptors, after.descriptors],
        "shared_memory_entries": [len(before.shared_memory), len(after.shared_memory)],
        "shared_memory_left": sorted(after.shared_memory - before.shared_memory),
    }


def claims(policies: dict[str, Any]) -> dict[str, bool]:
    """Return which claims hold."""
    holds = {}
    for policy, found in policies.items():
        for victim, it in found["victims"].items():
            holds[f"{policy}, {victim}: within {MARK_SECONDS:g} s"] = it["longest_seconds"] < MARK_SECONDS
            holds[f"{policy}, {victim}: as promised"] = not (it["lost"] + it["repeated"] + it["broken"] + it["wrong"])
        kept = all(found[what][0] >= found[what][1] for what in ("processes", "descriptors"))
        holds[f"{policy}: nothing is left"] = kept and not found["shared_memory_left"]
    return holds


def main() -> int:
    """Measure, print, and say whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ[_MARK] = str(os.getpid())
    load = os.getloadavg()[0]
    drawn = random.Random(options.seed)  # noqa: S311 - no secret.
    # What a program keeps that has had a region: the process that starts workers, and one that cleans up after them.
    kill_worker("fail", "waking", 1, drawn)
    policies = {policy: kill_all(policy, options.kills // len(POLICIES), drawn) for policy in POLICIES}
    holds = claims(policies)
    print({name: "holds" if held else "FAILS" for name, held in holds.items()})
    if options.json is not None:
        result = {
            "provenance": provenance(),
            "load": load,
            "seed": options.seed,
            "kills": sum(it["kills"] for found in policies.values() for it in found["victims"].values()),
            "policies": policies,
            "holds": holds,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
