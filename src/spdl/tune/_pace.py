"""How fast a pipeline is under unchanged limits: windows of what was sampled, with their rates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from spdl.observe._verdict.decide import verdict
from spdl.observe._verdict.verdict import Verdict
from spdl.observe._window.seen import Seen
from spdl.observe._window.window import Window
from spdl.observe._window.window_of import window_of
from spdl.pipeline._report.sample import Sample

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PageHead


# The least length and number of items of a window. After the last of these times it is taken unchanged.
_SHORT = 0.25
_ITEMS = 16
_LONG = 6.0
# Ops that run at once may end at once as well: a multiple of their duration is needed for a rate.
_SERVICES = 5
# After a change, what was under way before has to leave first.
_SETTLING = 0.1
# A window is cut in this number of parts, whose rates show how uneven the pace is.
_PARTS = 6
# This number of samples is kept from the beginning, for judging a change, and from the end.
_FIRST = _LAST = 64
# Workers that do not know of a change after this number of seconds are not waited for: an op in them may never end.
_PATIENCE = 60.0


class Pace(NamedTuple):
    """How the progress of a pipeline is measured.

    The work of the stages is added up, and an item of each counts as much as its ops usually take. So a step that only
    lets one stage take the cores from another shows as no progress. The ``finest`` stage is done with the most items:
    it shows soonest whether a window is long enough.
    """

    finest: int
    weights: tuple[float, ...]

    def progress(self, before: Sample, after: Sample) -> float:
        done = zip(_done(before), _done(after), strict=True)
        return sum(weight * (late - early) for weight, (early, late) in zip(self.weights, done, strict=True))

    def items(self, before: Sample, after: Sample) -> float:
        return _done(after)[self.finest] - _done(before)[self.finest]


def _done(sample: Sample) -> list[float]:
    return [stage.completed + stage.failed for stage in sample.stages]


def pace_of(sample: Sample) -> Pace | None:
    """Return how to measure progress, by what the stages have done in all; None if they have done nothing."""
    done = _done(sample)
    if not any(done):
        return None
    finest = len(done) - 1 - done[::-1].index(max(done))
    weights = [stage.busy_seconds / count if count else 0.0 for stage, count in zip(sample.stages, done, strict=True)]
    if not any(weights):
        weights[finest] = 1.0
    return Pace(finest, tuple(weights))


@dataclass(frozen=True)
class Measured:
    """A time under unchanged limits: the progress per second (see `Pace`), and the relative standard error of it."""

    rate: float
    error: float
    seconds: float
    _looked: Callable[[], Window]

    @cached_property
    def window(self) -> Window:
        """The window. It is made on demand: mostly the rate is enough."""
        return self._looked()

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.window)

    @property
    def usage(self) -> list[float]:
        return [stage.occupancy for stage in self.window.stages]

    @property
    def busy(self) -> list[float]:
        return [stage.occupancy * stage.concurrency for stage in self.window.stages]

    @property
    def wanted(self) -> float:
        """How many cores the process would have used had there been one for each thread."""
        return self.window.cores_used + self.window.cores_waited_for

    def ended(self, stage: int) -> float:
        return self.window.stages[stage].rate * self.seconds

    def service(self, stage: int) -> float:
        """Return the mean duration of a stage's ops, by Little's law; 0 if none has ended."""
        rate = self.window.stages[stage].rate
        return self.busy[stage] / rate if rate else 0.0


class Samples:
    """The first samples under unchanged limits, from that at which they were changed on, and the last ones."""

    def __init__(self, head: PageHead, *first: Sample) -> None:
        self._head = head
        self.all = list(first)
        self._known: tuple[tuple[float, float], Window] | None = None

    def add(self, sample: Sample) -> None:
        """Append a sample.

        Before all workers know the limits, only two samples are kept: the first, which may have been made just before
        the change, and the last, since the limits are in force from there on.
        """
        kept = self.all
        is_new = len(kept) == 1 or (len(kept) == 2 and kept[1].lags)  # noqa: PLR2004 - as the text says.
        if sample.lags and is_new and sample.now - kept[0].now < _PATIENCE:
            del kept[1:]
        kept.append(sample)
        if len(kept) > _FIRST + _LAST:
            del kept[_FIRST]

    @property
    def lag(self) -> bool:
        """Whether no worker of a region has begun."""
        return all(sample.lags for sample in self.all)

    def whole(self, pace: Pace, seconds: float = 0.0) -> Measured | None:
        """Return all of the time but its beginning, if that is long enough, and at least this number of seconds."""
        begin = self._begin()
        if begin + 1 >= len(self.all) or self.all[-1].now - self.all[begin].now < seconds:
            return None
        return self._judged(self.all[begin:], pace)

    def recent(self, pace: Pace, seconds: float) -> Measured | None:
        """Return the last window that is long enough, and at least this number of seconds. Without one, return None."""
        for begin in range(len(self.all) - 2, self._begin() - 1, -1):
            if self.all[-1].now - self.all[begin].now < seconds:
                continue
            if (found := self._judged(self.all[begin:], pace)) is not None:
                return found
        return None

    def any(self, pace: Pace) -> Measured | None:
        """Return the last window that is long enough. Without one, return all but the beginning."""
        samples = self.all[self._begin() :]
        return self.recent(pace, 0.0) or (self._measured(samples, pace) if len(samples) > 1 else None)

    def _begin(self) -> int:
        """Return the first sample that is not of the time of settling."""
        late = int(len(self.all) > 1 and self.all[1].lags)
        for index in range(late, len(self.all)):
            start, sample = self.all[late], self.all[index]
            if sample.now - start.now >= _SETTLING + _service_time(start, sample):
                return index
        return len(self.all)

    def _judged(self, samples: Sequence[Sample], pace: Pace) -> Measured | None:
        first, last = samples[0], samples[-1]
        seconds = last.now - first.now
        if seconds < _LONG:
            least = max(_ITEMS, 2 * last.stages[pace.finest].concurrency)
            if pace.items(first, last) < least or seconds < max(_SHORT, _SERVICES * _service_time(first, last)):
                return None
        return self._measured(samples, pace)

    def _measured(self, samples: Sequence[Sample], pace: Pace) -> Measured:
        first, last = samples[0], samples[-1]
        seconds = max(1e-9, last.now - first.now)
        rate = pace.progress(first, last) / seconds
        return Measured(rate, _error(samples, pace), seconds, partial(self._window, samples))

    def _window(self, samples: Sequence[Sample]) -> Window:
        # Every look at the same time before a step asks for it again.
        known, span = self._known, (samples[0].now, samples[-1].now)
        if known is None or known[0] != span:
            known = self._known = span, window_of(self._head, Seen(samples, {}, {}))
        return known[1]


def _service_time(first: Sample, last: Sample) -> float:
    pairs = zip(_done(first), _done(last), first.stages, last.stages, strict=True)
    return max(
        (
            (late.busy_seconds - early.busy_seconds) / (done - before)
            for before, done, early, late in pairs
            if done > before
        ),
        default=0.0,
    )


def _error(samples: Sequence[Sample], pace: Pace) -> float:
    items = pace.items(samples[0], samples[-1])
    if len(samples) <= _PARTS or not items:
        return 1.0 / sqrt(max(1.0, items))
    cuts = [samples[round(index * (len(samples) - 1) / _PARTS)] for index in range(_PARTS + 1)]
    rates = [
        pace.progress(before, after) / max(1e-9, after.now - before.now) for before, after in itertools.pairwise(cuts)
    ]
    mean = sum(rates) / _PARTS
    return sqrt(sum((rate - mean) ** 2 for rate in rates) / (_PARTS - 1) / _PARTS) / max(1e-12, mean)
