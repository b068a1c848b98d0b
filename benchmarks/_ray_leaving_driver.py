"""A driver that leaves its loop: `python _ray_leaving_driver.py ADDRESS break|raise|kill`.

It prints the numbers of its actors' processes when two of them work. Then it leaves the loop and forgets the loader
(``break``), is ended by an exception (``raise``), or waits to be killed (``kill``). With ``break`` it goes on until
there is a line on its stdin, or no more, and prints the names of our threads that are left.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

import ray
from spdl.pipeline import PipelineBuilder
from spdl.ray import run_on_ray

_LONG = 600.0


def _make(x: int) -> Any:
    time.sleep(0.005)
    return np.full(400_000, x % 256, np.uint8)


def _read(how: str) -> None:
    config = PipelineBuilder().add_source(range(100_000)).pipe(_make, concurrency=2).add_sink(4).get_config()
    loader = run_on_ray(config, num_actors=2, lease=64)
    kept: list[Any] = []
    for number, item in enumerate(loader):
        kept = [*kept[-10:], item]
        # The second actor may start late.
        if number >= 10 and len(actors := loader.statistics().actors) == 2:  # noqa: PLR2004
            print(*[actor.pid for actor in actors], flush=True)
            if how == "break":
                return
            if how == "raise":
                raise RuntimeError("in the middle")
            time.sleep(_LONG)


ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
_read(sys.argv[2])
sys.stdin.readline()
print(*[thread.name for thread in threading.enumerate() if thread.name.startswith("spdl")], flush=True)
