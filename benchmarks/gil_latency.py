"""How long Python waits while a native call works.

Claim: while one call decodes 256 images, a Python thread ticking every millisecond keeps ticking: its longest wait is
at most 5 ms above that beside the same work in another process (median of 5 rounds).

Run it as `python benchmarks/gil_latency.py [--rounds N] [--json FILE]`. Each round is two fresh processes, one for
either side.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median

from spdl.cli._console import Console
from spdl.cli._photos import demo_photos
from spdl.cli._provenance import provenance
from spdl.io import load_image_batch

LIMIT_SECONDS = 0.005
TICK_SECONDS = 0.001
IMAGES = 256
SIDES = ("thread", "process")


def load(paths: list[str]) -> None:
    """The work: one call."""
    load_image_batch(paths, width=224, height=224)


def tick_until(done: threading.Event) -> dict[str, float]:
    """Sleep a millisecond at a time and note how long each sleep really took."""
    waits = []
    last = time.perf_counter()
    while not done.is_set():
        time.sleep(TICK_SECONDS)
        now = time.perf_counter()
        waits.append(now - last)
        last = now
    return {"longest_seconds": max(waits), "median_seconds": median(waits), "ticks": len(waits)}


def beside_thread(paths: list[str]) -> dict[str, float]:
    """Tick while a thread of this process makes the call."""
    load(paths[:32])
    done = threading.Event()

    def work() -> None:
        load(paths)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    result = tick_until(done)
    thread.join()
    return result


def beside_process(folder: str) -> dict[str, float]:
    """Tick while another process makes the call."""
    command = [sys.executable, __file__, "--work", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise SystemExit("the worker has no pipes")
        worker.stdout.readline()
        done = threading.Event()

        def watch(stream: object = worker.stdout) -> None:
            stream.readline()  # type: ignore[attr-defined]
            done.set()

        watcher = threading.Thread(target=watch)
        watcher.start()
        worker.stdin.write("go\n")
        worker.stdin.flush()
        result = tick_until(done)
        watcher.join()
    return result


def work_on_demand(paths: list[str]) -> None:
    """Be the other process: warm up, wait for the word, make the call."""
    load(paths[:32])
    print("ready", flush=True)
    sys.stdin.readline()
    load(paths)
    print("done", flush=True)


def photos_in(folder: str) -> list[str]:
    """The files of the call."""
    return sorted(str(path) for path in Path(folder).glob("*.jpg"))[:IMAGES]


def main() -> int:
    """Run the rounds, print and write the outcome; the exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Measure how long Python waits beside a native call.")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--photos", type=Path, help="a folder of at least 256 JPEG files (default: the demo's)")
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "DIR"), help=argparse.SUPPRESS)
    parser.add_argument("--work", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work_on_demand(photos_in(options.work))
        return 0
    if options.side:
        side, given = options.side
        print(json.dumps(beside_thread(photos_in(given)) if side == "thread" else beside_process(given)))
        return 0

    folder = options.photos or demo_photos(Console())
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "--side", side, str(folder)]
            rounds[side].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    longest = {side: median(each["longest_seconds"] for each in rounds[side]) for side in SIDES}
    excess = longest["thread"] - longest["process"]
    holds = excess <= LIMIT_SECONDS
    print(
        f"longest wait of a ticking thread beside one call for {IMAGES} images: {longest['thread'] * 1000:.2f} ms;"
        f" beside the same in another process: {longest['process'] * 1000:.2f} ms (medians of {options.rounds} rounds);"
        f" {excess * 1000:+.2f} ms, limit {LIMIT_SECONDS * 1000:+.0f} ms: {'met' if holds else 'MISSED'}"
    )
    if options.json:
        result = {
            "provenance": provenance(),
            "images": IMAGES,
            "tick_seconds": TICK_SECONDS,
            "limit_seconds": LIMIT_SECONDS,
            "median_longest_seconds": longest,
            "excess_seconds": excess,
            "rounds": rounds,
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
