"""`spdl why --try`: set the limits that a verdict recommends for some seconds, and see what comes of it."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from spdl.cli._common.text import number, ratio
from spdl.observe import PageError, watch
from spdl.observe._trace.ask import RecordingError, Request

if TYPE_CHECKING:
    from spdl.observe import ObservedPipeline, Verdict

__all__ = ["Tried", "try_remedy"]

# Buffers fill in this time, and what was begun with the former limits ends.
_SETTLES = 0.5
# The process answers when it writes its counters.
_ANSWERS_WITHIN = 10.0
# Fewer items say little of a rate.
_LEAST_ITEMS = 8


class Tried(NamedTuple):
    """What came of a remedy.

    Attributes:
        seconds: How long it was tried.
        before: Items per second before.
        after: Items per second while it was in force.
        gain: How many times more that is. None if there were too few items.
        error: Why it was not tried; empty if it was.
    """

    seconds: float
    before: float = 0.0
    after: float = 0.0
    gain: float | None = None
    error: str = ""

    def sentence(self) -> str:
        """Return it in words."""
        if self.error:
            return f"Not tried: {self.error}."
        if self.gain is None:
            return f"Tried for {self.seconds:g} s, and put back: too few items came to compare rates."
        rates = f"{number(self.after)} items/s instead of {number(self.before)}"
        return f"Tried for {self.seconds:g} s, and put back: {ratio(self.gain)} as fast ({rates})."


def try_remedy(pipeline: ObservedPipeline, verdict: Verdict, seconds: float) -> Tried:
    """Set what a verdict recommends in the running pipeline, watch it for some seconds, and put it back.

    The process puts it back as well if this one is killed.
    """
    settings = verdict.settings
    if verdict.stage in pipeline.head.sources:
        return Tried(seconds, error="the remedy moves work out of the source, which takes a change of the program")
    if "concurrency" not in settings or not settings.keys() <= {"concurrency", "num_threads"}:
        return Tried(seconds, error="the remedy does not only set the concurrency of a stage")
    limits = {
        "pipeline": pipeline.head.pipeline,
        "stage": verdict.stage,
        "concurrency": settings["concurrency"],
        "num_threads": settings.get("num_threads", settings["concurrency"]),
    }
    try:
        before, items_before = _rate(pipeline, seconds)
        with Request(pipeline.head, pipeline.path.parent) as request:
            request.begin({"try": limits}, within=_ANSWERS_WITHIN, is_gone=lambda: pipeline.state() != "running")
            sleep(_SETTLES)
            after, items_after = _rate(pipeline, seconds)
            request.stop()
    except TimeoutError:
        return Tried(seconds, error=f"the process did not answer in {_ANSWERS_WITHIN:g} s")
    except (RecordingError, PageError) as error:
        return Tried(seconds, error=str(error))
    enough = min(items_before, items_after) >= _LEAST_ITEMS
    return Tried(seconds, before, after, after / before if enough else None)


def _rate(pipeline: ObservedPipeline, seconds: float) -> tuple[float, float]:
    """Return how many items the loop takes per second, and how many it took.

    Raises:
        RecordingError: The pipeline has ended.
    """
    window = watch(pipeline, seconds)
    if pipeline.state() != "running":
        raise RecordingError("the pipeline has ended")
    return window.delivered, window.delivered * window.seconds
