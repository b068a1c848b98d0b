"""The loop of all jobs: it trains for `SECONDS`, and prints how many steps it took per second."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The first steps find full buffers, and fill the caches of the machine.
WARM = 0.5


def train(loader: Iterable[Any], step: Callable[[Any], object]) -> None:
    """Take batches, epoch after epoch, for `SECONDS` (default: 60), and print the rate.

    A line before that says when the clock begins.

    Args:
        loader: iterated over again and again.
        step: is called with each batch.
    """
    seconds = float(os.environ.get("SECONDS", "60"))
    first = began = 0.0
    steps = 0
    while True:
        for batch in loader:
            step(batch)
            now = time.perf_counter()
            first = first or now
            if began:
                steps += 1
            elif now - first > WARM:
                began = now
                say("training")
            if began and now - began > seconds:
                say(f"rate {steps / (now - began)}")
                return


def train_epochs(loader: Iterable[Any], step: Callable[[Any], object], epochs: int) -> None:
    """Take the batches of whole epochs, and print the rate, with what each epoch costs at its beginning."""
    began, steps = time.perf_counter(), 0
    for _ in range(epochs):
        for batch in loader:
            step(batch)
            steps += 1
    say(f"rate {steps / (time.perf_counter() - began)}")


def say(line: str) -> None:
    """Print a line at once and whole: ranks share the stream."""
    print(f"{line}\n", end="", flush=True)
