"""What the programs of this folder share. Their time is simulated: a nap takes exactly as long as it says.

What the engine does between two looks at the clock takes no time, so what is measured is known. Who goes on, of those
that could, is drawn anew for each of several runs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.metrics.lines import Lines
from tests.simulation.world import sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import Pipeline, PipelineBuilder

__all__ = ["PROGRAMS", "Hears", "binned", "drain", "exactly", "nap", "program", "run", "slowly"]

# By the name of their module, and by their own.
PROGRAMS: dict[str, dict[str, Callable[[], None]]] = {}


def program(function: Callable[[], None]) -> Callable[[], None]:
    """Have a function run in simulated time. It raises AssertionError if what it sees is wrong."""
    PROGRAMS.setdefault(function.__module__.rpartition(".")[2], {})[function.__name__] = function
    return function


def exactly(seconds: float) -> Any:
    """Equal what was measured: looks at the clock take 100 ns each, and lines show a tenth of a millisecond."""
    return pytest.approx(seconds, rel=0.01, abs=1e-4)


def binned(seconds: float) -> Any:
    """Equal a percentile of what was measured: it is told within 10 %."""
    return pytest.approx(seconds, rel=0.1, abs=1e-4)


def nap(seconds: float) -> Callable[[Any], Any]:
    """Return an op that takes so long."""

    def op(x: Any) -> Any:
        sleep(seconds)
        return x

    return op


def slowly(count: int, seconds: float) -> Iterator[int]:
    """Yield numbers, each after so many seconds."""
    for x in range(count):
        sleep(seconds)
        yield x


def drain(pipeline: Pipeline[Any], *, consume: float = 0) -> list[Any]:
    """Read a pipeline to its end, with so many seconds for each item."""
    items = []
    with pipeline.auto_stop():
        for item in pipeline.get_iterator(timeout=20):
            items.append(item)
            if consume:
                sleep(consume)
    return items


def run(
    builder: PipelineBuilder[Any, Any], *, consume: float = 0, sink: int = 3, num_threads: int = 4, **options: Any
) -> list[Any]:
    """Build a pipeline and read it to its end."""
    return drain(builder.add_sink(sink).build(num_threads=num_threads, **options), consume=consume)


class Hears(logging.Handler):
    """Hears what pipelines log while its block runs."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self._logger = logging.getLogger("spdl.pipeline")

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> Hears:  # noqa: PYI034 - it has no subclasses.
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(logging.NOTSET)

    @property
    def lines(self) -> Lines:
        """What it has heard of stages and queues."""
        return Lines(self.records)
