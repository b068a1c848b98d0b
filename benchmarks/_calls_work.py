"""Measure the cost of short calls into the native part.

Run as `python _calls_work.py JSON` by the interpreter to be measured. It prints the CPU time of each call in
nanoseconds as JSON. It imports only the package, NumPy and the standard library, as a new environment with a wheel has
no more.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import time
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

import spdl.io

if TYPE_CHECKING:
    from collections.abc import Callable

# Grey, 8x8: as little to decode as a JPEG can have.
TINY = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4z"
    "NDL/wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAB//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AKp//2Q=="
)
SECONDS = 0.02


def calls() -> dict[str, Callable[[], object]]:
    """Return the calls to measure, by name."""
    file = io.BytesIO()
    spdl.io.save_npz(file, {"image": np.zeros((3, 8, 8), np.uint8), "label": np.arange(3)})
    npz = file.getvalue()
    file = io.BytesIO()
    spdl.io.save_npy(file, np.arange(10))
    npy = file.getvalue()
    packets = spdl.io.demux_image(TINY)
    buffer = spdl.io.load_image(TINY)
    return {
        "an attribute": lambda: packets.width,
        "clone": packets.clone,
        "demux_image": lambda: spdl.io.demux_image(TINY),
        "to_numpy": lambda: spdl.io.to_numpy(buffer),
        "load_npy": lambda: spdl.io.load_npy(npy),
        "load_npz, two arrays": lambda: list(spdl.io.load_npz(npz).values()),
        "load_image, 8x8": lambda: spdl.io.load_image(TINY),
        "load_image_batch, 1 of 8x8": lambda: spdl.io.load_image_batch([TINY], width=8, height=8),
        "load_image_batch, 32 of 8x8": lambda: spdl.io.load_image_batch([TINY] * 32, width=8, height=8, num_threads=1),
    }


def nanoseconds(call: Callable[[], object], count: int) -> float:
    """Return the CPU time of one call."""
    begin = time.process_time_ns()
    for _ in range(count):
        call()
    return (time.process_time_ns() - begin) / count


def main() -> None:
    """Measure the calls in turns, so that other load on the machine affects all of them."""
    turns = json.loads(sys.argv[1])["turns"]
    measured = calls()
    counts = {name: max(1, int(SECONDS * 1e9 / nanoseconds(call, 20))) for name, call in measured.items()}
    found: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(turns):
        for name, call in measured.items():
            found[name].append(nanoseconds(call, counts[name]))
    print(json.dumps({name: median(times) for name, times in found.items()}))


if __name__ == "__main__":
    main()
