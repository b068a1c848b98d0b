"""What a driver leaves behind that goes away: nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ray.work import await_that, config, is_free, pids, runs, slowly

from spdl.ray import run_on_ray

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

_DRIVER = Path(__file__).parents[3] / "benchmarks" / "_ray_leaving_driver.py"


@pytest.mark.parametrize("how", ["break", "raise", "kill"])
def test_a_driver_that_leaves_leaves_nothing(cluster: str, how: str) -> None:
    await_that(is_free, "the cluster is free")
    driver = subprocess.Popen(
        [sys.executable, _DRIVER, cluster, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert driver.stdout is not None
    processes = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(processes) == 2
    if how == "kill":
        os.kill(driver.pid, signal.SIGKILL)
    for pid in processes:
        await_that(lambda pid=pid: not runs(pid), f"the actor {pid} ends")  # type: ignore[misc]
    await_that(is_free, "CPUs and objects are given back")
    assert driver.poll() is None or how != "break", "it has only left its loop"
    threads, errors = driver.communicate()
    assert not threads.strip(), "no thread of ours is left"
    assert driver.returncode == {"break": 0, "raise": 1, "kill": -9}[how], errors.decode()


def test_a_loader_that_is_forgotten_ends_its_actors(cluster: str) -> None:
    def read() -> list[int]:
        loader = run_on_ray(config(range(10_000), slowly), num_actors=2, lease=64)
        for number, _ in enumerate(loader):
            if number >= 100 and len(running := pids(loader)) == 2:
                return running
        raise AssertionError

    processes = read()
    gc.collect()
    for pid in processes:
        await_that(lambda pid=pid: not runs(pid), f"the actor {pid} ends")  # type: ignore[misc]
    await_that(is_free, "CPUs and objects are given back")
