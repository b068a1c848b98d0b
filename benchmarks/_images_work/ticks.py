"""Measure how long Python waits while one native call loads many images: in another thread, in another process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from measure import BATCH, SIZE, Figures, photos

from spdl.io import load_image_batch

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_SECONDS = 0.001
IMAGES = 256


def longest_wait(*, folder: str, workers: int) -> Figures:
    """Tick while a thread of this process makes the call, then while another process makes it."""
    if workers != 1:
        raise SystemExit("this work makes one call, so it takes one worker")
    paths = photos(folder)[:IMAGES]
    load(paths[:BATCH])
    beside_thread = _tick_while(lambda: load(paths))
    work = json.dumps({"work": "ticks.serve", "folder": folder})
    command = [sys.executable, str(Path(__file__).parent), work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        answers = other.stdout
        answers.readline()
        other.stdin.write("go\n")
        other.stdin.flush()
        beside_process = _tick_while(answers.readline)
    return {
        "longest_ms_beside_thread": beside_thread[0],
        "longest_ms_beside_process": beside_process[0],
        "excess_ms": beside_thread[0] - beside_process[0],
        "median_ms_beside_thread": beside_thread[1],
        "median_ms_beside_process": beside_process[1],
    }


def load(paths: list[str]) -> None:
    """Do the work: one call."""
    load_image_batch(paths, width=SIZE, height=SIZE)


def _tick_while(call: Callable[[], object]) -> tuple[float, float]:
    """Sleep a millisecond at a time. Return how long the longest and the median sleep really took."""
    done = threading.Event()

    def work() -> None:
        call()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    waits = []
    last = time.perf_counter()
    while not (waits and done.is_set()):
        time.sleep(TICK_SECONDS)
        now = time.perf_counter()
        waits.append(1000 * (now - last))
        last = now
    thread.join()
    return max(waits), median(waits)


def serve(*, folder: str) -> Figures:
    """Act as the other process: warm up, wait for the word, make the call."""
    paths = photos(folder)[:IMAGES]
    load(paths[:BATCH])
    print("ready", flush=True)
    sys.stdin.readline()
    load(paths)
    return {}
