"""What a driver leaves behind that goes away: nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from tests.ray.work import await_that, config, pids, runs, slowly

from spdl.ray import run_on_ray

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

_DRIVER = """
    import sys, time
    import numpy as np
    import ray
    from spdl.pipeline import PipelineBuilder
    from spdl.ray import run_on_ray

    ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
    def make(x):
        time.sleep(0.005)
        return np.full(400_000, x % 256, np.uint8)
    declared = PipelineBuilder().add_source(range(100_000)).pipe(make, concurrency=2).add_sink(4).get_config()
    def read():
        loader = run_on_ray(declared, num_actors=2, lease=64)
        kept = []
        for number, item in enumerate(loader):
            kept = [*kept[-10:], item]
            # The second actor may start late.
            if number >= 10 and len(actors := loader.statistics().actors) == 2:
                print(*[actor.pid for actor in actors], flush=True)
                if sys.argv[2] == "break":
                    break
                if sys.argv[2] == "raise":
                    raise RuntimeError("stopped in the middle")
                time.sleep(600)
    read()
"""


def _is_free() -> bool:
    import ray  # noqa: PLC0415 - an extra.

    total, free = ray.cluster_resources(), ray.available_resources()
    return all(free.get(name) == total[name] for name in ("CPU", "object_store_memory"))


@pytest.mark.parametrize("how", ["break", "raise", "kill"])
def test_a_driver_that_leaves_leaves_nothing(cluster: str, how: str, tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text(textwrap.dedent(_DRIVER))
    await_that(_is_free, "the cluster is free")
    driver = subprocess.Popen([sys.executable, program, cluster, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert driver.stdout is not None
    processes = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(processes) == 2
    if how == "kill":
        os.kill(driver.pid, signal.SIGKILL)
    _, errors = driver.communicate()
    assert driver.returncode == {"break": 0, "raise": 1, "kill": -9}[how], errors.decode()
    for pid in processes:
        await_that(lambda pid=pid: not runs(pid), f"the actor {pid} ends")  # type: ignore[misc]
    await_that(_is_free, "CPUs and objects are given back")


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
    await_that(_is_free, "CPUs and objects are given back")
