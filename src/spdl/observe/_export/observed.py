"""Observed pipelines and loaders, each under a name, until the observer is closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, runtime_checkable

from spdl._check import refuse

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PipelineStatistics


# The name of a pipeline that was given without one.
LONE_NAME = "pipeline"


@runtime_checkable
class Observed(Protocol):
    """Anything that tells what a pipeline does: a `Pipeline`, and the loaders of `spdl.dataloader`.

    Example:
        >>> from spdl.observe import Observed
        >>> from spdl.pipeline import PipelineBuilder
        >>> isinstance(PipelineBuilder().add_source(range(3)).add_sink().build(), Observed)
        True
    """

    def statistics(self) -> PipelineStatistics:
        """Return the counts and times since the start. It may be called at any time, from any thread."""


Observables: TypeAlias = Observed | Mapping[str, Observed]


def check_observed(observed: object) -> Observables:
    """Return the argument if it can be observed.

    Raises:
        TypeError: If it is neither an `Observed` nor a mapping from names to such.
    """
    accepted = "a pipeline, a loader, or a mapping from names to these"
    if isinstance(observed, Mapping):
        for name, each in observed.items():
            if not isinstance(name, str):
                refuse(TypeError, "pipelines", accepted, observed, f"The name {name!r} is no str.")
            if not isinstance(each, Observed):
                refuse(TypeError, "pipelines", accepted, observed, f"What is called {name!r} has no statistics().")
        return observed
    if not isinstance(observed, Observed):
        refuse(TypeError, "pipelines", accepted, observed)
    return observed


def read(observed: Observables) -> dict[str, PipelineStatistics]:
    """Return the statistics of each pipeline now, by name. Other threads may change a mapping at the same time."""
    if not isinstance(observed, Mapping):
        return {LONE_NAME: observed.statistics()}
    # Copied in one step, for dicts.
    return {name: each.statistics() for name, each in dict(observed).items()}


class UntilClosed:
    """Closes itself at the end of a ``with`` block."""

    def close(self) -> None:
        """End. Further calls do nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the object itself, which works already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close it."""
        self.close()


_LOG = logging.getLogger("spdl.observe")


class Ticker:
    """Calls a function at intervals, in its own daemon thread.

    An error of the function is logged, once until it succeeds again.

    Args:
        act: The function.
        interval: Seconds from one call to the next. A call that takes longer delays the next; none is made up for.
        name: The thread's name.
    """

    def __init__(self, act: Callable[[], None], interval: float, name: str) -> None:
        self._act = act
        self._interval = interval
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        failing = False
        while not self._closed.wait(self._interval):
            try:
                self._act()
                failing = False
            except Exception:  # noqa: BLE001 - it may be of any kind, and the next call may succeed.
                if not failing:
                    _LOG.exception("%s could not do its work; it tries again", self._thread.name)
                failing = True

    def close(self) -> bool:
        """End the thread. Return whether that was not done before."""
        if self._closed.is_set():
            return False
        self._closed.set()
        self._thread.join()
        return True
