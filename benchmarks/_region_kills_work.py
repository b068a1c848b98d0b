"""A region that is killed at some moment: the pipeline, and how what it delivers is checked."""

from __future__ import annotations

import os
import time
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline

Policy = Literal["fail", "rerun"]
# An item: its number, the process that made it, and what crosses in shared memory.
Item = tuple[int, int, Any]


class Moment(NamedTuple):
    """What the workers and the pipeline do when one of them is killed.

    Attributes:
        before: How many items there are before the kill, and that many may be done when it happens.
        after: How many follow the kill.
        size: The bytes of an item's array; 0 if it has none.
        seconds: How long an item takes.
        kept: Whether the reader holds all of them.
        quiet: Whether all items are done when the kill comes.
    """

    before: int
    after: int
    size: int
    seconds: float
    kept: bool = False
    quiet: bool = False


MOMENTS = {
    # All wait for items.
    "idle": Moment(10, 10, 0, 0.0, quiet=True),
    # The reader has views of the memory of the workers.
    "loaned": Moment(60, 10, 1 << 20, 0.002, kept=True),
    # The workers fill memory without a pause.
    "writing": Moment(200, 10, 4 << 20, 0.0),
    # Each small item wakes the other side.
    "waking": Moment(300, 10, 0, 0.001),
}


class Make:
    """Makes items."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment

    def __call__(self, number: int) -> Item:
        """Return an item, all of whose bytes tell its number."""
        if self.moment.seconds:
            time.sleep(self.moment.seconds)
        array = np.full(self.moment.size, number % 251, np.uint8) if self.moment.size else None
        return number, os.getpid(), array


class Numbers:
    """The items before the kill, and those after it."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.killed = Event()

    def __iter__(self) -> Iterator[int]:
        """Give the numbers of the items."""
        yield from range(self.moment.before)
        self.killed.wait()
        yield from range(self.moment.before, self.moment.before + self.moment.after)


def build(numbers: Numbers, policy: Policy, processes: int) -> Pipeline[Any]:
    """Return a pipeline whose only stage is a region."""
    return (
        PipelineBuilder[int, Any]()
        .add_source(numbers)
        .to(ProcessPoolExecutorConfig(processes, on_death=policy))
        .pipe(Make(numbers.moment))
        .to(MAIN_PROCESS)
        .add_sink(2)
        .build(num_threads=1)
    )


def is_whole(item: Item) -> bool:
    """Return whether an item holds what it was made of."""
    number, _, array = item
    return array is None or bool((array == number % 251).all())
