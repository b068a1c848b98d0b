"""A hill climb with a budget: from what was sampled to the limits that come next. It knows no clock and no threads.

A step raises the limits that hold the pipeline up by as much as the stages' own times call for, to make it twice as
fast or as fast as the scarcest of the other resources allows. It is kept if the pipeline became faster, and undone if
not. When there is nothing more to gain, unused slots are given back, and everything stays until something changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

from spdl.observe._verdict.verdict import Limit, next_limit
from spdl.pipeline._report.sample import Sample
from spdl.tune._pace import Samples, pace_of

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PageHead
    from spdl.tune._limits import Budgets, Limits
    from spdl.tune._pace import Measured, Pace


# A resource is the limit if what it has left would make the pipeline faster by no more than this.
ENOUGH = 1.035
# If others use the cores as well, waiting threads are worth it up to this number for each core: the system shares the
# cores out among threads. But threads also wait if items come in bursts and the cores are not all in use; then
# they wait less than this many times as long as they run.
_CROWDED = 1.5
_LONG = 4.0
# A stage should use this much of its slots: some of the rest wait for an item at any moment.
_USED = 0.9
# A stage that uses no more of its slots than this, when there is nothing more to gain, gives the others back.
_IDLE = 0.4
# A stage that uses less of its slots than this does not hold the others up: what takes time lies between its ops, as
# with ops of microseconds. For that, this number of slots for each core is enough, if the consumer waits for this
# share of the time.
_HALF_FULL = 0.6
_PER_CORE = 2
_STARVED = 0.5
# The pace is uneven if the last stage has no place for its results for such a share of the time, and the consumer waits
# for results for as much. Then a buffer that is this many times as deep may help.
_UNEVEN = 0.05
_DEEPER = 4
# So few slots are not worth giving back.
_FEW = 2
# No number of slots helps against these.
_NOT_BY_SLOTS = ("slow consumer", "memory budget", "hang")


def scarcest(limits: Limits, budgets: Budgets, its: Measured) -> Limit:
    """Return what limits the pipeline once all is raised that may be: the next limit, as the verdict has it.

    The tuner also knows that it may not add threads, and which cores other programs use.
    """
    window = its.window
    free = [
        stage
        for stage, slots, each in zip(window.stages, limits.concurrency, budgets.stages, strict=True)
        if not each.pinned and slots < each.most
    ]
    found = [
        next_limit(window, *free, cores=False),
        Limit(_used_cores(budgets, its), "CPU"),
        Limit(window.short_of_bytes, "memory budget"),
    ]
    if budgets.threads_pinned or limits.num_threads >= budgets.num_threads:
        busy = sum(busy for busy, stage in zip(its.busy, budgets.stages, strict=True) if stage.on_threads)
        found.append(Limit(busy / limits.num_threads, "threads"))
    return max(found)


_WORDS = {
    "slow consumer": "The consumer is the limit: it works for {share:.0%} of the time.",
    "serial source": "The source is the limit: its next() takes {share:.0%} of the time.",
    "CPU": "The CPU is the limit: there is work for {wanted:.1f} cores, and there are {cores:g}.",
    "memory budget": "The bytes in flight are the limit: there is no room for another item {share:.0%} of the time.",
    "threads": "The threads are the limit: there are {threads}, and may not be more.",
}


def in_words(limit: Limit, limits: Limits, budgets: Budgets, its: Measured) -> str:
    for slots, each in zip(limits.concurrency, budgets.stages, strict=True):
        if not limit.kind and each.name == limit.name:
            return f"Stage {each.name!r} is the limit: its concurrency is {each.in_words(slots)}, and {each.why}."
    words = _WORDS[limit.kind]
    return words.format(share=limit.share, wanted=its.wanted, cores=budgets.cores, threads=limits.num_threads)


def _used_cores(budgets: Budgets, its: Measured) -> float:
    """Return how much of the cores is used, or of what others leave of them."""
    cores = its.window.cores_used
    if cores <= 0:
        return 0.0
    return max(cores / budgets.cores, min(its.wanted / _CROWDED / budgets.cores, its.wanted / cores / (1 + _LONG)))


def raised_by(limits: Limits, budgets: Budgets, its: Measured, factor: float) -> Limits:
    """Return the limits of the next step up, by the verdict, which should make the pipeline faster by a factor."""
    found, raised = its.verdict, limits
    if found.kind not in _NOT_BY_SLOTS:
        raised = raise_slots(limits, budgets, its, factor)
    return raise_buffer(limits, budgets, its) if raised == limits else raised


def raise_slots(limits: Limits, budgets: Budgets, its: Measured, factor: float) -> Limits:
    pressure = _pressure(its)
    most = [
        min(each.most, limits.num_threads) if each.on_threads and budgets.threads_pinned else each.most
        for each in budgets.stages
    ]
    wanted = [
        slots if each.pinned else max(slots, min(limit, each.rounded_up(_slots(slots * share * factor, slots))))
        for slots, share, each, limit in zip(limits.concurrency, pressure, budgets.stages, most, strict=True)
    ]
    if wanted == list(limits.concurrency):
        wanted = _raise_one(limits, budgets, its, most)
    threads = max(limits.num_threads, budgets.needed_threads(wanted, limits.num_threads))
    return replace(limits, concurrency=tuple(wanted), num_threads=threads)


def _pressure(its: Measured) -> list[float]:
    return [min(1.0, stage.occupancy + stage.held) for stage in its.window.stages]


def _slots(busy: float, now: int) -> int:
    # A quarter of a slot more is ignored: the measured mean is never exact.
    return max(now, ceil(busy / _USED - 0.25))


def _raise_one(limits: Limits, budgets: Budgets, its: Measured, most: Sequence[int]) -> list[int]:
    """Return the concurrencies, with one of them raised: no stage is full on average.

    It is the stage that the verdict names, or the fullest.
    """
    pressure, slots = _pressure(its), list(limits.concurrency)
    free = [index for index, each in enumerate(budgets.stages) if not each.pinned and slots[index] < most[index]]
    if not free:
        return slots
    named = [index for index in free if budgets.stages[index].name == its.verdict.stage]
    fullest = max(named or free, key=pressure.__getitem__)
    wanted = its.window.consumer_waits >= _STARVED and slots[fullest] < _PER_CORE * budgets.cores
    if pressure[fullest] >= _HALF_FULL or wanted:
        more = budgets.stages[fullest].rounded_up(slots[fullest] + max(1, slots[fullest] // 2))
        slots[fullest] = min(most[fullest], more)
    return slots


def is_handing_over(its: Measured) -> bool:
    """Return whether handing items over takes most of the time: the consumer waits, and no stage has much to do."""
    held = max(stage.held for stage in its.window.stages)
    return its.window.consumer_waits >= _STARVED and max(its.usage) + held < _HALF_FULL


def raise_buffer(limits: Limits, budgets: Budgets, its: Measured) -> Limits:
    """Return the limits with more places in front of the consumer, if at times it waits and at others is waited for."""
    if budgets.buffer_pinned or min(its.window.stages[-1].blocked, its.window.consumer_waits) < _UNEVEN:
        return limits
    return replace(limits, buffer_size=min(budgets.buffer_size, _DEEPER * limits.buffer_size))


def lower(limits: Limits, budgets: Budgets, its: Measured) -> Limits:
    lowered = tuple(
        min(slots, each.rounded_up(ceil(usage * slots / _USED) + 1))
        if not each.pinned and usage <= _IDLE and slots > _FEW
        else slots
        for slots, usage, each in zip(limits.concurrency, its.usage, budgets.stages, strict=True)
    )
    if lowered == limits.concurrency:
        return limits
    return replace(limits, concurrency=lowered, num_threads=budgets.needed_threads(lowered, limits.num_threads))


def why(its: Measured) -> str:
    found = its.verdict
    return f"{found.name}. {f'{found.stage!r}: ' if found.stage else ''}{found.evidence}"


def describe(before: Limits, after: Limits, budgets: Budgets) -> str:
    changes = [
        f"concurrency of {each.name!r} {old // each.copies} -> {each.in_words(new)}"
        for each, old, new in zip(budgets.stages, before.concurrency, after.concurrency, strict=True)
        if old != new
    ]
    if before.num_threads != after.num_threads:
        changes.append(f"threads {before.num_threads} -> {after.num_threads}")
    if before.buffer_size != after.buffer_size:
        changes.append(f"buffer {before.buffer_size} -> {after.buffer_size}")
    return ", ".join(changes)


# The kinds of changes. A decision without a change is an empty text.
RAISED, LOWERED, UNDONE = "raised", "lowered", "undone"

# How much faster a step tries to make the pipeline, first and if that has failed.
_FACTORS = (2.0, 1.5)
# A step that goes as far as another resource allows goes a little further: items come unevenly, and a stage that could
# just keep up does not.
_ROOM = 1.15
# A step is kept if it has made the pipeline faster by this share of the possible gain, within bounds. More threads for
# less are not worth their contention. It is judged once the gain differs from that by this number of standard errors.
_SHARE = 0.2
_LEAST_GAIN, _MOST_GAIN = 0.02, 0.08
# Giving back must not cost more than this.
_LOSS = 0.03
_ERRORS = 2.0
# It is judged in any case once the comparison is this exact, or after this number of seconds.
_EXACT = 0.1
_LATEST = 2.5
# A repeated step is judged by a longer time.
_SURE = 4.0
# The two rates have another cause than the limits if they are further apart than this.
_SAME = 0.3
# A step tried at another rate, by this factor, does not count.
_OTHER = 2.0
# Seconds that tell for sure.
_STEADY = 1.5
# Seconds of the looks for a possible gain. If the last one finds nothing, the search ends.
_LOOKS = (0.0, _STEADY, 3.0)
# A consumer that has read nothing for this number of seconds, though there was something, is not slow: it validates,
# saves a checkpoint, or waits for a person in a debugger. That says nothing about the limits.
_PAUSE = 1.0
# So many changes are remembered.
_ENTRIES = 200

# Ops are in each other's way if they last longer by such a power of the ratio of their numbers: at 0 they are not at
# all, at 1 they take turns. A time so long in which they are shows it.
_HALFWAY = 0.7
_TELLING = 0.7
# The deviation of the logarithm of an op's duration, which is not known; and the number of deviations that are enough.
_DEVIATION = 0.5
_DEVIATIONS = 3.0
# The cores are nearly all in use from this share of them, and all from that.
_BUSY, _FULL = 0.75, 0.93


class LogEntry(NamedTuple):
    time: float
    limits: Limits
    reason: str


class _Trial(NamedTuple):
    """A step that has yet to be judged: RAISED or LOWERED, and the limits before with the samples under these."""

    move: str
    limits: Limits
    samples: Samples


class _Tried:
    """The findings about the limits in force. A step that leads to better ones clears them.

    Attributes:
        failed: The rates from which more was tried in vain.
        lowered: Whether less was tried in vain.
        looks: How many looks have found nothing to do since the limits came into force.
        steady: The measurement until the last of them; None before that.
        nothing: Why there was nothing to do.
    """

    def __init__(self) -> None:
        self.failed: list[float] = []
        self.lowered = False
        self.begin_again()

    def begin_again(self) -> None:
        self.looks = 0
        self.steady: Measured | None = None
        self.nothing = ""

    def less_is_slower(self) -> None:
        self.lowered = True

    def looked(self, its: Measured, nothing: str, *, last: bool) -> None:
        self.looks += 1
        self.nothing = nothing
        self.steady = its if last else None

    def failed_at(self, rate: float | None) -> int:
        """Return how often more was tried in vain, at about this rate if one is given."""
        return sum(rate is None or 1 / _OTHER <= each / max(rate, 1e-9) <= _OTHER for each in self.failed)


class Climb:
    """The tuning of one pipeline.

    `settled` says that the last decision found nothing more to gain, and `paused` that the consumer had read nothing
    when it was looked at last, though there was something. `log` has the changes, oldest first.
    """

    def __init__(self, head: PageHead, limits: Limits, budgets: Budgets) -> None:
        self._head = head
        self.reason = "Nothing has come through yet."
        self.log: list[LogEntry] = []
        self.paused = False
        # The last sample that found something read, or the consumer waiting.
        self._active: Sample | None = None
        self.pin(limits, budgets)

    def pin(self, limits: Limits, budgets: Budgets) -> None:
        """Take over limits that were set by hand: what was learnt before says nothing about them."""
        self.limits = limits
        self.budgets = budgets
        self.settled = False
        self._has_moved = False
        self.samples = Samples(self._head)
        self._trial: _Trial | None = None
        self._tried = _Tried()
        # The most slots of stages for which more were useless, by their indices.
        self._refuted: dict[int, int] = {}

    def observe(self, sample: Sample) -> str:
        """Note a sample, and decide. Return what was changed of the limits; an empty text if nothing was."""
        self.paused = self._is_paused(sample)
        if self.paused:
            return ""
        self.samples.add(sample)
        before = self.limits
        move = self._decide(sample)
        if move:
            self.settled = False
            self._has_moved = True
            self.samples = Samples(self._head, sample)
            self._tried.begin_again()
            self.log = [*self.log[1 - _ENTRIES :], LogEntry(sample.now, self.limits, self.reason)]
            assert before != self.limits
        return move

    def _is_paused(self, sample: Sample) -> bool:
        active = self._active
        if active is not None and sample.delivered == active.delivered and not sample.consumer_waiting_since:
            return True
        if active is not None and sample.now - active.now > _PAUSE and not active.consumer_waiting_since:
            # Samples before the pause make no rate together with later ones.
            self.samples = Samples(self._head)
        self._active = sample
        return False

    # ---- decisions: each returns what it changes, and leaves the reason ----

    def _wait(self, reason: str) -> str:
        self.reason = reason
        return ""

    def _decide(self, sample: Sample) -> str:
        pace = pace_of(sample)
        if pace is None or (not self._has_moved and self.samples.lag):
            nothing = "Nothing has come through yet." if pace is None else "The workers of a region have yet to begin."
            return self._wait(nothing)
        if self._tried.steady is not None:
            return self._watch(self._tried.steady, pace)
        if self._trial is not None and (move := self._judge(self._trial, pace)) is not None:
            return move
        # Ever longer looks; where more was tried in vain, the second is the last.
        its = self.samples.whole(pace, _LOOKS[self._tried.looks])
        if its is None:
            return self._wait(self._tried.nothing or "The rate is being measured.")
        if move := self._next(its):
            return move
        last = self._tried.looks >= len(_LOOKS) - 1 - (self._tried.failed_at(its.rate) >= len(_FACTORS))
        self._tried.looked(its, self.reason, last=last)
        self.settled = last
        return ""

    def _capped(self) -> Budgets:
        return self.budgets.cap(self._refuted)

    def _watch(self, steady: Measured, pace: Pace) -> str:
        """Leave everything unchanged unless something has changed since the limits settled."""
        recent = self.samples.recent(pace, _STEADY)
        if recent is not None and self._has_changed(steady, recent):
            # A refuted step may be worth it now.
            refuted, self._refuted = self._refuted, {}
            if move := self._next(recent):
                return move
            self._refuted = refuted
        else:
            self.reason = self._tried.nothing
        return ""

    def _has_changed(self, before: Measured, now: Measured) -> bool:
        """Return whether the pipeline has become slower, or what limited it does so no more."""
        sure = 1 + _ERRORS * now.error
        scarce_before, scarce_now = (scarcest(self.limits, self._capped(), its).share for its in (before, now))
        return sure * now.rate < (1 - _SAME) * before.rate or sure * scarce_now < (1 - _SAME) * scarce_before

    def _next(self, its: Measured) -> str:
        budgets = self._capped()
        limit = scarcest(self.limits, budgets, its)
        if limit.share > 1 / ENOUGH:
            return self._give_back(its, in_words(limit, self.limits, budgets, its))
        failed = self._tried.failed_at(its.rate)
        if failed and its.seconds < _STEADY:
            return self._wait("More was tried, and was no faster; it is looked at once more.")
        if failed >= len(_FACTORS):
            return self._give_back(its, "More was tried, and was no faster.")
        raised = self.limits
        if not failed and not budgets.buffer_pinned and is_handing_over(its):
            # With as many places as there may be, the consumer takes several items at once.
            raised = replace(raised, buffer_size=budgets.buffer_size)
        if raised == self.limits:
            raised = raised_by(raised, budgets, its, min(_FACTORS[failed], _ROOM / max(limit.share, 1e-9)))
        if raised == self.limits:
            reason = "More slots would stay empty: no stage that may have more uses those that it has."
            return self._give_back(its, reason)
        return self._try(RAISED, raised, f"{describe(self.limits, raised, budgets)}: {why(its)}")

    def _give_back(self, its: Measured, reason: str) -> str:
        lowered = lower(self.limits, self._capped(), its) if its.seconds >= _STEADY else self.limits
        if lowered == self.limits or self._tried.lowered:
            return self._wait(reason)
        changes = describe(self.limits, lowered, self.budgets)
        return self._try(LOWERED, lowered, f"{changes}: the others are idle. {reason}")

    def _try(self, move: str, limits: Limits, reason: str) -> str:
        self._trial = _Trial(move, self.limits, self.samples)
        self.limits, self.reason = limits, reason
        return move

    # ---- judging a step ----

    def _judge(self, trial: _Trial, pace: Pace) -> str | None:
        """Keep the last step or undo it, or wait if its effect is not clear yet. Return None once it is kept."""
        before, after = trial.samples.any(pace), self.samples.whole(pace)
        if before is None or before.rate <= 0:
            return self._kept()
        if after is None:
            return self._wait("The effect of the last step is being measured.")
        judge = self._judge_raising if trial.move == RAISED else self._judge_lowering
        return judge(trial, before, after, pace)

    def _kept(self) -> str | None:
        self._trial = None
        self._tried = _Tried()
        return None

    def _undo(self, trial: _Trial, change: float) -> str:
        self._trial = None
        self.limits = trial.limits
        self.reason = f"The last step changed the rate by {change:+.0%}, which is not worth it, so it is undone."
        return UNDONE

    def _judge_raising(self, trial: _Trial, before: Measured, after: Measured, pace: Pace) -> str | None:
        usage = scarcest(trial.limits, self._capped(), before).share
        least = max(_LEAST_GAIN, min(_MOST_GAIN, _SHARE * (1 / max(usage, 1e-9) - 1)))
        gain = after.rate / before.rate - 1
        cores = before.window.cores_used, after.window.cores_used
        if trial.limits.buffer_size < self.limits.buffer_size and all(cores):
            # Fewer turns of the consumer save CPU time, which shows sooner than the rate, whatever else the machine
            # does.
            gain = max(gain, after.rate / cores[1] / (before.rate / cores[0]) - 1)
        error = _error(before, after)
        # The rates of few items do not tell, but the ops' durations do: they grow where ops wait for each other.
        blocked = self._in_each_others_way(trial.limits, trial.samples.whole(pace) or before, after)
        useless = bool(blocked) and all(blocked.values())
        useful = bool(blocked) and not useless
        refuted = useless and gain < least and after.seconds >= _TELLING
        if not refuted and not self._is_clear(gain - least, before, after):
            return self._wait("The effect of the last step is being measured.")
        if gain >= least + error * useless or (abs(gain - least) < error and useful):
            return self._put_back(trial, blocked) if any(blocked.values()) and not useless else self._kept()
        if refuted:
            self._refute(trial.limits, blocked)
        else:
            self._tried.failed.append(before.rate)
        return self._undo(trial, gain)

    def _judge_lowering(self, trial: _Trial, before: Measured, after: Measured, _: Pace) -> str | None:
        loss = 1 - after.rate / before.rate
        if scarcest(self.limits, self._capped(), after).share > 1 / ENOUGH:
            # The same limit still holds, so it cannot be slower for this.
            return self._kept()
        if not self._is_clear(_LOSS - loss, before, after):
            return self._wait("The effect of the last step is being measured.")
        if loss <= _LOSS:
            return self._kept()
        self._tried.less_is_slower()
        return self._undo(trial, -loss)

    def _is_clear(self, gain: float, before: Measured, after: Measured) -> bool:
        """Return whether a gain differs from 0 for sure, or there was time enough; more if it was tried before."""
        again, error, seconds = bool(self._tried.failed), _error(before, after), after.seconds
        if abs(gain) >= error or seconds >= (_SURE if again else _LATEST):
            return True
        # Waiting longer makes only the second of the two rates more exact.
        exact = error <= _EXACT or after.error <= before.error
        return exact and not again and seconds >= _STEADY

    # ---- stages whose ops are in each other's way ----

    def _in_each_others_way(self, old: Limits, then: Measured, now: Measured) -> dict[int, bool]:
        """Return for each stage that was raised whether its ops have become so slow that more of them do no more.

        Time without a core does not count. Stages with too few ended ops are left out. All stages are left out on a
        system that does not count how long threads wait for a core, if the cores are nearly all in use. If they are all
        in use, that is why ops are slow.
        """
        cores, budgets = now.window.cores_used, self._capped()
        if cores > _BUSY * budgets.cores and now.wanted <= cores:
            return {}
        raised = {
            index: (before, after)
            for index, (before, after) in enumerate(zip(old.concurrency, self.limits.concurrency, strict=True))
            if after > before
        }
        if cores > _FULL * budgets.cores:
            return dict.fromkeys(raised, False)
        # The fullest stage, if nothing else is the limit, has work for all of its slots: if it does not use them,
        # its threads wait between ops.
        alone = scarcest(self.limits, budgets, now).share < _BUSY
        found = {}
        for index, (before, after) in raised.items():
            doubt = _doubt(then.ended(index), now.ended(index))
            if doubt < after / before:
                slower = now.service(index) * _on_cores(now) / (then.service(index) * _on_cores(then))
                if alone and now.usage[index] >= max(now.usage):
                    slower *= max(1.0, then.usage[index] / now.usage[index])
                found[index] = slower >= max(doubt, (after / before) ** _HALFWAY)
        return found

    def _refute(self, old: Limits, blocked: dict[int, bool]) -> None:
        self._refuted |= {index: old.concurrency[index] for index, is_blocked in blocked.items() if is_blocked}

    def _put_back(self, trial: _Trial, blocked: dict[int, bool]) -> str:
        """Keep a step but for stages whose ops are in each other's way."""
        after = self.limits
        slots = [trial.limits.concurrency[at] if blocked.get(at) else now for at, now in enumerate(after.concurrency)]
        threads = self.budgets.needed_threads(slots, after.num_threads)
        self._refute(trial.limits, blocked)
        self._kept()
        self.limits = replace(after, concurrency=tuple(slots), num_threads=threads)
        self.reason = f"{describe(after, self.limits, self.budgets)}: more of these ops are in each other's way."
        return UNDONE


def _doubt(then: float, now: float) -> float:
    """Return by how much the mean durations of two numbers of ops differ at most without a cause."""
    return exp(_DEVIATIONS * _DEVIATION * sqrt(1 / then + 1 / now)) if min(then, now) >= 1 else inf


def _on_cores(its: Measured) -> float:
    return max(0.01, 1.0 - its.window.cores_waited_for / max(1e-9, sum(its.busy)))


def _error(before: Measured, after: Measured) -> float:
    return float(_ERRORS * (before.error**2 + after.error**2) ** 0.5)
