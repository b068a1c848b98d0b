"""Measure for how long something of a driver is left that has gone away: actors, their CPUs, objects.

Claim: 5 seconds after a driver has left its loop and dropped the loader, was ended by an exception, or was killed by
SIGKILL, its actors are gone, and the cluster has all of its CPUs and memory for objects back. The cluster stays.

Run it as `python benchmarks/ray_leaving.py [--rounds N] [--json FILE]`; it needs `spdl-turbo[ray]`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import ray
from spdl.cli._common.machine import provenance

WAYS = ("break", "raise", "kill")
MARK = 5.0
_LONGEST = 60.0

_DRIVER = Path(__file__).with_name("_ray_leaving_driver.py")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _is_free() -> bool:
    total, free = ray.cluster_resources(), ray.available_resources()
    return all(free.get(name) == total[name] for name in ("CPU", "object_store_memory"))


def seconds_until_nothing_is_left(how: str) -> float:
    """Have a driver leave, and return after how many seconds its actors are gone and their resources given back.

    Args:
        how: ``break``: it leaves its loop and forgets the loader, and goes on. ``raise``: an exception ends it.
            ``kill``: SIGKILL does.
    """
    address = ray.get_runtime_context().gcs_address
    driver = subprocess.Popen(
        [sys.executable, _DRIVER, address, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    try:
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2, pids  # noqa: PLR2004 - the actors.
        if how == "kill":
            os.kill(driver.pid, signal.SIGKILL)
        began = time.perf_counter()
        while any(map(_runs, pids)) or not _is_free():
            if time.perf_counter() - began > _LONGEST:
                return _LONGEST
            time.sleep(0.02)
        return time.perf_counter() - began
    finally:
        driver.kill()
        driver.wait()
        driver.stdin.close()
        driver.stdout.close()


def main() -> int:
    """Measure, print, and say whether the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    seconds: dict[str, list[float]] = {how: [] for how in WAYS}
    for _ in range(options.rounds):
        for how in WAYS:
            seconds[how].append(seconds_until_nothing_is_left(how))
            print(f"{how}: {seconds[how][-1]:.2f} s", flush=True)
    ray.shutdown()
    most = {how: max(each) for how, each in seconds.items()}
    holds = max(most.values()) < MARK
    print("holds" if holds else "FAILS")
    if options.json is not None:
        result = {
            "provenance": {**provenance(), "ray": ray.__version__},
            "rounds": options.rounds,
            "seconds": {how: {"median": statistics.median(each), "most": most[how]} for how, each in seconds.items()},
            "holds": holds,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
