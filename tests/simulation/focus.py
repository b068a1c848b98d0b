"""Draws one place of the engine for a run, and has something happen right there.

Most mistakes of the rare kind need two moments that meet: a stop, an interrupt or another thread's step comes exactly
between two statements. Under a random schedule one statement in ten thousand is as likely as any other one, though
most are passed again and again and some hardly ever. So a run is made twice. The first time it is noted which places
which threads come to. Then one of these is drawn, whatever the number of times that it was passed, and the run is
repeated: as it is the same until then, it comes there again. Short programs are repeated again and again.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tests.simulation import scheduler
from tests.simulation.programs.program import all_pipes
from tests.simulation.sites import site

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.simulation.programs.program import Program

__all__ = ["Event", "Focus", "Visit", "events_of"]

# ``stop``: a finalizer calls ``stop()``. ``stop_elsewhere``: another thread does. ``interrupt``: a Ctrl-C. ``hold``:
# all other threads go on before this one does. ``ring``: the next alarm rings, as if this thread had been kept off its
# core until then.
Event: TypeAlias = Literal["stop", "stop_elsewhere", "interrupt", "hold", "ring"]

# How often the place is one of those that were passed once, whatever it is about: what is made or ended once.
_ONCE = 0.25
# How often it comes a few places earlier in the same thread: what is rare may have begun there.
_EARLIER, _MOST_EARLIER = 0.3, 8
# For how many decisions the others go first.
_HOLDS = (5, 30, 300, 2000)
# What is touched without the engine's lock, so that others go on with it while a thread holds the lock.
_TOUCHED_BY_ALL = frozenset({"stopping", "full", "entries", "readers", "idle", "interrupt", "event_loop"})
# How far ahead the alarm may be, in seconds.
_FAR = 1.0


class Visit(NamedTuple):
    """A place, who comes to it, and the number of the visit.

    Attributes:
        thread: What kind of thread.
        locked: Whether it holds the engine's lock.
        place: The number of the place.
        number: How often such a thread has been there before.
    """

    thread: str
    locked: bool
    place: int
    number: int


class Focus:
    """What is to happen in a run, and where; or a look at which places there are.

    Args:
        random: Draws the place.
        event: What is to happen; None if that is not known yet, so that it is noted which places there are.
        visit: Where.
        interrupts: Whether to note where an interrupt may come.

    Attributes:
        happened: Whether it has happened.
    """

    def __init__(
        self, random: Random, event: Event | None = None, visit: Visit | None = None, *, interrupts: bool = False
    ) -> None:
        self.event = event
        self._random = random
        self._visit = visit
        self._interrupts = interrupts
        self._visits: Counter[tuple[str, bool, int]] = Counter()
        # Those at which the consumer reads, where an interrupt may come.
        self._reads: Counter[tuple[str, bool, int]] = Counter()
        # All visits of each thread, and of the consumer where it reads, in their order.
        self._ways: dict[int, list[Visit]] = {}
        self._way_of_reads: list[Visit] = []
        self._kinds: dict[int, str] = {}
        self._stop: Callable[[], None] = lambda: None
        self._stop_elsewhere: Callable[[], None] = lambda: None
        self.happened = False

    def begin(self, stop: Callable[[], None], stop_elsewhere: Callable[[], None]) -> None:
        """Look at each place from now on."""
        self._stop, self._stop_elsewhere = stop, stop_elsewhere
        scheduler.active.watch = self._note

    def end(self) -> None:
        """Look no more."""
        scheduler.active.watch = None
        self._stop = self._stop_elsewhere = lambda: None

    def draw(self, event: Event) -> Visit | None:
        """Return one of the visits for an event.

        Each kind of thread is as likely as another. So is each kind of place that it comes to: with the lock or without
        it, by what the place is about. Of a kind, those are likelier that are passed less often. Some are drawn of all
        that were passed once, and some a few places before the one that was drawn.
        """
        visits = self._reads if event == "interrupt" else self._visits
        threads: dict[str, dict[tuple[bool, str], list[tuple[str, bool, int]]]] = {}
        for thread, locked, place in visits:
            names = site(place).names or ("",)
            if event == "hold" and locked:
                names = tuple(name for name in names if name in _TOUCHED_BY_ALL)
            for name in names:
                threads.setdefault(thread, {}).setdefault((locked, name), []).append((thread, locked, place))
        if not threads:
            return None
        chosen = self._choose(visits, threads)
        if self._random.random() > _EARLIER:
            return chosen
        for way in [self._way_of_reads] if event == "interrupt" else self._ways.values():
            if chosen in way:
                return way[max(0, way.index(chosen) - self._random.randint(1, _MOST_EARLIER))]
        return chosen

    def _choose(
        self,
        visits: Counter[tuple[str, bool, int]],
        threads: dict[str, dict[tuple[bool, str], list[tuple[str, bool, int]]]],
    ) -> Visit:
        once = [visit for visit, number in visits.items() if number == 1]
        if once and self._random.random() < _ONCE:
            return Visit(*self._random.choice(once), 0)
        kinds = threads[self._random.choice(list(threads))]
        places = kinds[self._random.choice(list(kinds))]
        chosen = self._random.choices(places, [1 / visits[place] for place in places])[0]
        return Visit(*chosen, self._random.randrange(visits[chosen]))

    def _note(self, place: int) -> None:
        fiber = scheduler.active.current
        assert fiber is not None
        if fiber.elsewhere:
            # None of this process's finalizers and signals come there.
            return
        kind = self._kinds.get(fiber.ident)
        if kind is None:
            # Threads of one kind are numbered.
            kind = self._kinds[fiber.ident] = fiber.name.rstrip("0123456789_ ")
        key = kind, fiber.locks > 0, place
        if self.event == "interrupt" or self._interrupts:
            if kind == "main" and _is_reading():
                self._come_to(key, self._reads, self._way_of_reads)
            if self.event == "interrupt":
                return
        self._come_to(key, self._visits, self._ways.setdefault(fiber.ident, []))

    def _come_to(self, key: tuple[str, bool, int], visits: Counter[tuple[str, bool, int]], way: list[Visit]) -> None:
        number = visits[key]
        visits[key] = number + 1
        if self._visit is None:
            way.append(Visit(*key, number))
        if self._visit == (*key, number):
            scheduler.active.watch = None
            self.happened = True
            self._act()

    def _act(self) -> None:
        world = scheduler.active
        if self.event == "interrupt":
            raise KeyboardInterrupt
        if self.event == "stop":
            self._stop()
            return
        if self.event == "stop_elsewhere":
            self._stop_elsewhere()
        elif self.event == "ring":
            world.ring(_FAR)
        world.hold(self._random.choice(_HOLDS))


def _is_reading() -> bool:
    return scheduler.is_within("_iterate", sys._getframe())


def events_of(program: Program) -> list[Event]:
    """Return what may happen in a program; what is more likely is there more often."""
    reading = program.consumer.reading
    events: list[Event] = ["hold", "hold", "hold"]
    if not any(pipe.timeout for pipe in all_pipes(program)):
        # An op that takes too long would end before its timer rings.
        events.append("ring")
    if reading in ("interrupt", "interrupt_readers"):
        events += ["interrupt"] * 6
    elif reading not in ("forget", "exit", "fork"):
        events += ["stop", "stop", "stop", "stop_elsewhere"]
    return events
