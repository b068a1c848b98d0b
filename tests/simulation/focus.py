"""Draws one place of the engine for a run, and has something happen right there.

Most mistakes of the rare kind need two moments that meet: a stop, an interrupt or another thread's step comes exactly
between two statements. Under a random schedule one statement in ten thousand is as likely as any other one, though
most are passed again and again and some hardly ever. So a run is made twice. The first time it is noted which places
which threads come to. Then one of these is drawn, whatever the number of times that it was passed, and the run is
repeated: as it is the same until then, it comes there again.
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

__all__ = ["Event", "Focus", "Visit", "draw_event"]

# ``stop``: a finalizer calls ``stop()``. ``stop_elsewhere``: another thread does. ``interrupt``: a Ctrl-C. ``hold``:
# all other threads go on before this one does. ``ring``: the next alarm rings, as if this thread had been kept off its
# core until then.
Event: TypeAlias = Literal["stop", "stop_elsewhere", "interrupt", "hold", "ring"]

# For how many decisions the others go first.
_HOLDS = (5, 30, 300, 2000)
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
    """What is to happen in a run, and where.

    Args:
        event: What.
        random: Draws the place.
        visit: Where; None if that is not known yet, so that it is noted which places there are.

    Attributes:
        happened: Whether it has happened.
    """

    def __init__(self, event: Event, random: Random, visit: Visit | None = None) -> None:
        self.event = event
        self._random = random
        self._visit = visit
        self._visits: Counter[tuple[str, bool, int]] = Counter()
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

    def draw(self) -> Visit | None:
        """Return one of the visits: each kind of place is as likely as another, and so is each place of a kind."""
        kinds: dict[tuple[str, bool, bool], list[tuple[str, bool, int]]] = {}
        for thread, locked, place in self._visits:
            kinds.setdefault((thread, locked, site(place).delicate), []).append((thread, locked, place))
        if not kinds:
            return None
        chosen = self._random.choice(kinds[self._random.choice(list(kinds))])
        return Visit(*chosen, self._random.randrange(self._visits[chosen]))

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
        if self.event == "interrupt" and (kind != "main" or not _is_reading()):
            return
        key = kind, fiber.locks > 0, place
        number = self._visits[key]
        self._visits[key] = number + 1
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


def draw_event(program: Program, random: Random) -> Event:
    """Return something that may happen in a program."""
    reading = program.consumer.reading
    events: list[Event] = ["hold", "hold"]
    if not any(pipe.timeout for pipe in all_pipes(program)):
        # An op that takes too long would end before its timer rings.
        events.append("ring")
    if reading in ("interrupt", "interrupt_readers"):
        events += ["interrupt"] * 6
    elif reading not in ("forget", "exit", "fork"):
        events += ["stop", "stop", "stop", "stop_elsewhere"]
    return random.choice(events)
