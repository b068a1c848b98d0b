#!/usr/bin/env python3
"""See how work in the background slows down a training loop that does not depend on it.

A small network is trained on the same batch over and over, so nothing has to be loaded. Beside it runs a number of
neighbours, which stand for the workers of a data loader:

* ``processes``: each computes in a separate process, as the workers of PyTorch's DataLoader do;
* ``threads without the GIL``: each computes in native code in a thread of the training's process;
* ``threads with the GIL``: each computes in Python in a thread of the training's process.

Training slows down when the cores are used up, and with the GIL long before that: the loop cannot start its next
operator while a neighbour holds it. So a loader should use no more CPU than it needs, and hold the GIL only briefly.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager
from statistics import median, quantiles
from threading import Event, Thread
from typing import TYPE_CHECKING

import torch
from torch import nn

from _program.isolated import measure_in_turns
from _program.options import make_parser, natural, positive
from _program.plots import Line, Panel
from _program.record import Record, finish
from _program.table import print_table
from image_classification import SIZE, make_model
from spdl._cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["beside_processes", "beside_threads", "main", "measure_steps"]

BATCH_SIZE = 16
CLASSES = 10
WARM_UP = 5
"""Steps before the timing starts."""


def compute_natively() -> None:
    """Keep a core busy for about a millisecond without holding the GIL."""
    hashlib.pbkdf2_hmac("sha256", b"photo", b"salt", 2_000)


def compute_in_python() -> None:
    """Hold the GIL for about a millisecond."""
    sum(range(50_000))


def _compute_for_ever() -> None:
    while True:
        compute_natively()


@contextmanager
def beside_processes(number: int) -> Iterator[None]:
    """Let processes compute until the block ends."""
    neighbours = [multiprocessing.Process(target=_compute_for_ever, daemon=True) for _ in range(number)]
    for process in neighbours:
        process.start()
    try:
        yield
    finally:
        for process in neighbours:
            process.kill()
            process.join()
            process.close()


@contextmanager
def beside_threads(number: int, compute: Callable[[], None]) -> Iterator[None]:
    """Let threads of this process compute until the block ends."""
    ended = Event()

    def work() -> None:
        while not ended.is_set():
            compute()

    neighbours = [Thread(target=work) for _ in range(number)]
    for thread in neighbours:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in neighbours:
            thread.join()


NEIGHBOURS: dict[str, Callable[[int], AbstractContextManager[None]]] = {
    "processes": beside_processes,
    "threads without the GIL": lambda number: beside_threads(number, compute_natively),
    "threads with the GIL": lambda number: beside_threads(number, compute_in_python),
}


def measure_steps(*, neighbours: str, number: int, seconds: float) -> dict[str, float]:
    """Train for a while beside neighbours.

    Args:
        neighbours: One of `NEIGHBOURS`.
        number: How many neighbours.
        seconds: How many seconds to train.

    Returns:
        ``steps_per_second``, and ``median_ms`` and ``p99_ms`` of the steps' times.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(CLASSES).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    images = torch.rand(BATCH_SIZE, 3, SIZE, SIZE, device=device)
    labels = torch.randint(CLASSES, (BATCH_SIZE,), device=device)
    took = []

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        # item() waits for the device.
        loss.item()

    with ExitStack() as beside:
        if number:
            beside.enter_context(NEIGHBOURS[neighbours](number))
        for _ in range(WARM_UP):
            step()
        start = last = time.perf_counter()
        while last - start < seconds:
            step()
            now = time.perf_counter()
            took.append(now - last)
            last = now
    # A single step has no percentiles, so its own time is used.
    p99 = quantiles(took, n=100)[-1] if len(took) > 1 else took[0]
    return {
        "steps_per_second": len(took) / (last - start),
        "median_ms": 1000 * median(took),
        "p99_ms": 1000 * p99,
    }


def panels(measured: Record) -> list[Panel]:
    """Return the panels to draw: the rate, and the slowest steps, against the number of neighbours."""
    rows = measured["rows"]

    def lines(key: str) -> dict[str, Line]:
        found = {}
        for kind in NEIGHBOURS:
            own = [row for row in rows if row["neighbours"] == kind]
            found[kind] = Line([row["number"] for row in own], [row[key] for row in own])
        return found

    return [
        Panel("Training beside neighbours", "busy neighbours", "steps/s", lines("steps_per_second")),
        Panel("Its slowest steps", "busy neighbours", "99th percentile of a step, ms", lines("p99_ms")),
    ]


def main() -> None:
    """Measure, print and write the results."""
    cores = int(available_cores())
    parser = make_parser(__doc__)
    parser.add_argument(
        "--neighbours",
        type=natural,
        nargs="+",
        default=sorted({0, 1, cores // 2, cores, 2 * cores}),
        metavar="N",
        help="how many neighbours to try (default: from none to twice as many as there are cores)",
    )
    parser.add_argument("--seconds", type=positive, default=5, help="how long each row trains (default: %(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.neighbours, options.seconds, options.rounds = [0, 1], 0.2, 1
    cases = [
        {"neighbours": kind, "number": number, "seconds": options.seconds}
        for kind in NEIGHBOURS
        for number in options.neighbours
    ]
    rows = [
        {"neighbours": case["neighbours"], "number": case["number"], **figures}
        for case, figures in zip(cases, measure_in_turns(measure_steps, cases, options.rounds), strict=True)
    ]
    print_table(
        ("neighbours", "steps/s", "median ms", "p99 ms", "what they are"),
        (
            (
                row["number"],
                f"{row['steps_per_second']:.1f}",
                f"{row['median_ms']:.2f}",
                f"{row['p99_ms']:.2f}",
                row["neighbours"],
            )
            for row in rows
        ),
    )
    finish(options, {"rows": rows, "batch_size": BATCH_SIZE}, "Training beside busy neighbours", panels)


if __name__ == "__main__":
    main()
