"""The source at run time: an iterator, the token that says who may pull it, and the passes over it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sized
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

from spdl._counted import bytes_of_thread
from spdl.pipeline._declare.records import StageInfo
from spdl.pipeline._engine.channel import MARK, Channel, Entry
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.counters import StageCounters
from spdl.pipeline._report.page import IDLE
from spdl.pipeline._state.passes import (
    Interruptible,
    Leg,
    Pass,
    Passes,
    ResumedIterator,
    Resumption,
    has_state,
    load_state,
    mark_of,
    state_behind,
    state_of_next_pass,
)
from spdl.pipeline._world import Thread, get_ident, perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

# That many elements of a sequence are looked at, evenly spread.
_SAMPLED = 16

_SEQUENCES = (list, tuple, range, str, bytes)


class SourceIdentity:
    """The properties that identify a source: its type, its length, and some items of built-in sequences.

    A source with its own state compares that itself.
    """

    def __init__(self, source: Any) -> None:
        self._known: dict[str, Any] = {"type": type(source).__qualname__}
        self._source = source
        self._complete = has_state(source)

    @property
    def type(self) -> str:
        return str(self._known["type"])

    def note(self) -> None:
        """Look at the source before it is released, as far as that runs no user code."""
        if type(self._source) in _SEQUENCES:
            self.complete()

    def complete(self) -> dict[str, Any]:
        """Return the known properties. Asks the source for its length."""
        if not self._complete:
            # In one step, as a signal handler may ask for a state meanwhile, and states hold the dict itself.
            self._known = {**self._known, **_look(self._source)}
            self._complete = True
        return self._known

    def let_go(self) -> Any:
        self._complete = True
        source, self._source = self._source, None
        return source


def _look(source: Any) -> dict[str, Any]:
    """Return the length of a source, and a checksum of some items of built-in sequences."""
    known: dict[str, Any] = {}
    if isinstance(source, Sized):
        try:
            known["length"] = len(source)
        except Exception:  # noqa: BLE001 - one that wraps another may have none.
            return known
    if type(source) in _SEQUENCES and source:
        step = max(1, len(source) // _SAMPLED)
        marks = "|".join(str(mark_of(source[index])) for index in range(0, len(source), step))
        known["sample"] = f"{crc32(marks.encode('utf-8', 'surrogatepass')):08x}"
    return known


# If a pull takes less than this on average, waking a worker for it costs more than the worker gains: the worker needs
# the GIL, and if a training loop keeps the GIL, asking for it delays both. A wake-up takes this long.
_SHORT = 20e-6


class Puller(Protocol):
    """A thread that pulls one source and nothing else; `DedicatedThread` is one."""

    thread: Thread

    def wake(self) -> None: ...


class Source:
    """The iterator that feeds the first stage.

    The thread that holds the token (``pulling``) pulls one item without the lock. ``iter()`` and ``next()`` calls are
    thus serialised, but may come from different threads.
    """

    __slots__ = (
        "again",
        "closing",
        "column",
        "continuous",
        "counters",
        "current",
        "dedicated",
        "ended",
        "ended_at",
        "engine",
        "exhausted",
        "identity",
        "index",
        "info",
        "iterable",
        "iterator",
        "name",
        "next_stage",
        "on_loop",
        "output",
        "pass_began_at",
        "passes",
        "pulled_at",
        "pulling",
        "pulling_since",
        "resumption",
        "state_behind",
        "takes_long",
        "unread",
        "unwanted",
        "wants_room",
    )

    # Its name in messages; the plan sets it.
    info: StageInfo
    # Nothing feeds it.
    feeders: tuple[Node | Source, ...] = ()

    def __init__(
        self,
        engine: Engine,
        index: int,
        name: str,
        iterable: Iterable[Any] | AsyncIterable[Any],
        *,
        continuous: bool,
    ) -> None:
        self.engine = engine
        self.name = name
        self.index = index
        self.iterable: Any = iterable
        self.identity = SourceIdentity(iterable)
        # The passes that may have items in flight; the current one; and the source's own state without passes.
        self.passes = Passes()
        self.current: Pass | None = None
        self.state_behind: Any = None
        # The rest of an earlier run, and whether the consumer has yet to see the end of this pass.
        self.resumption: Resumption | None = None
        self.unread = True
        # True if the event loop's thread pulls it.
        self.on_loop = hasattr(iterable, "__aiter__")
        # If True, it is iterated again and again, and each pass is an epoch.
        self.continuous = continuous
        self.iterator: Any = None
        # The destination of its items: the channel in front of the first stage, or the sink if there is no stage.
        self.output = Channel()
        self.next_stage: Node | None = None
        # It counts the items that were handed out, and the time that pulling them took.
        self.counters = StageCounters()
        # How many items it had given when the latest pass began; only from the second pass on.
        self.pass_began_at = -1
        # Returns the root of the item just pulled, while the items of an earlier run are pulled again.
        self.again: Callable[[], int] | None = None
        self.pulling = False
        self.closing = False
        # When the current pull began, and when the last one ended.
        self.pulling_since = 0.0
        self.pulled_at = 0.0
        # Whether its pulls take so long that each is worth a wake-up.
        self.takes_long = False
        # The column in which a thread notes on the page that it has begun to pull it.
        self.column = IDLE
        # Pulls it in its own thread, if that was asked for.
        self.dedicated: Puller | None = None
        # Whether there are no more pulls: it ran out, it failed, or the pipeline does not want more.
        self.ended = False
        # Whether the stage that it feeds was given up.
        self.unwanted = False
        self.ended_at = 0.0
        # Whether it ran out by itself or was closed, so that there is nothing to close.
        self.exhausted = False
        # Whether the event loop or its own thread, which serves it, found no room: the thread that makes room tells it.
        self.wants_room = False

    def identify(self, info: StageInfo) -> None:
        self.info = info

    def write_to(self, channel: Channel, following: Node | None) -> None:
        self.output = channel
        self.next_stage = following

    def take_column(self, column: int) -> None:
        self.column = column

    def dedicate(self, puller: Puller) -> None:
        self.dedicated = puller

    def begin(self, now: float) -> None:
        self.output.counters.begin(now)

    # ---- the passes over the iterable ----

    def resume(self, passes: list[Pass], following: int, resumption: Resumption) -> None:
        """Continue an earlier run, before anything is pulled: the passes that were left, and the next one's number."""
        self.passes.restore(passes, following)
        self.state_behind = resumption.state
        self.resumption = resumption

    def must_replay(self) -> bool:
        return self.resumption is not None and self.resumption.goes_on()

    def begin_pass(self) -> Leg | None:
        """Note that a pass begins, and return what is left of it if an earlier run had begun it. Needs no lock."""
        leg = None
        self.identity.note()
        if self.resumption is not None:
            leg = self.resumption.next_leg()
            state = self.resumption.state if leg is None else leg.of.state
            if leg is None:
                self.resumption = None
            load_state(self.iterable, state)
        if leg is not None:
            self.current = leg.of
            self.unread = not leg.read
            return leg
        self.unread = True
        state = self.own_state()
        lineage = self.engine.lineage
        self.current = self.passes.begin(
            lineage.next_position(self.index),
            state,
            epochs_read=self.engine.epochs_read,
            lowest_out=lineage.lowest_out(self.index),
        )
        return None

    def locate(self, position: int) -> tuple[int, int]:
        return self.passes.locate(position)

    def note_end(self) -> BaseException | None:
        """Note the source's own state after a pass, and return what it raises. Needs no lock."""
        try:
            if self.current is not None and self.current.end is None:
                self.state_behind = state_behind(self.iterable, self.current.state)
            elif self.resumption is not None and self.resumption.is_over():
                # The pass had ended in an earlier run, and may not have been iterated here, but others follow.
                load_state(self.iterable, self.resumption.state)
        except BaseException as error:  # noqa: BLE001 - it becomes the pipeline's failure.
            return error
        return None

    def note_state(self) -> None:
        """Note the source's own state before the first pass. Runs user code."""
        if self.resumption is None:
            self.state_behind = self.own_state()

    def own_state(self) -> Any:
        """Return the source's own state before a pass; None if it says nothing. Runs user code."""
        return state_of_next_pass(self.iterable)

    # ---- whether to pull ----

    def pullable(self) -> Source | None:
        """Return the source itself if a worker may take the token now."""
        if self.pulling or self.ended or self.on_loop or self.dedicated:
            return None
        output = self.output
        if len(output.entries) < output.capacity and output.guard is None:
            # What `has_place` says in most cases, without two calls.
            return self
        return self if self.has_place() else None

    def has_place(self) -> bool:
        following = self.next_stage
        if following is not None and following.slots_are_places:
            return following.has_place()
        return self.output.has_place()

    def in_ops(self) -> int:
        return int(self.pulling)

    def wants_worker(self) -> bool:
        return bool(self.pullable()) and (self.engine.workers.permits > 0 or self.is_wanted_when_full())

    def is_wanted_when_full(self) -> bool:
        """Return whether an idle worker should be woken to pull it even though no more ops may run."""
        first = self.next_stage
        # The thread that runs an op comes here after it. That is soon enough for short pulls.
        return self.takes_long or first is None or first.on_loop or not first.on_workers

    def _note_pace(self) -> None:
        # Short pulls read nothing from another machine.
        self.counters.bytes_read += bytes_of_thread()
        self.takes_long = self.counters.busy_seconds > _SHORT * self.counters.emitted

    # ---- pulling ----

    def pull(self, hand: list[Any]) -> int | None:  # noqa: C901 - one step after the other.
        """Pull one item, and return its root; None if there is no item, or it is no longer wanted.

        Called and returns with the lock held, which it releases in the meantime. The item is left in ``hand``, an empty
        list: nothing else may keep it alive.
        """
        engine, counters = self.engine, self.counters
        self.pulling = True
        begin = perf_counter()
        if counters.emitted >= counters.sample_at:
            self.note_wait(begin)
        self.pulling_since = begin
        if len(engine.sources) > 1 and engine.workers.idle:
            # This pull may block, and another source have something.
            engine.progressed()
        engine.lock.release()
        ended = False
        failure: BaseException | None = None
        try:
            # A request to stop takes no lock, so this is checked right before the pull.
            if not engine.stopping:
                if self.iterator is None:
                    self._take_first(hand)
                else:
                    hand.append(next(self.iterator))
        except StopIteration:
            ended = True
            failure = self.note_end()
        except BaseException as error:  # noqa: BLE001 - it becomes the pipeline's failure.
            failure = error
        self.pulled_at = end = perf_counter()
        engine.lock.acquire()
        counters.busy_seconds += end - begin
        self.pulling = False
        if hand and not (self.ended or engine.stopping):
            counters.emitted += 1
            if self.takes_long or counters.busy_seconds > _SHORT * counters.emitted:
                self._note_pace()
            return engine.lineage.admit(self.index) if self.again is None else self.again()
        self._note_pace()
        if engine.budget is not None and not hand:
            engine.budget.freed()
        # The item is not wanted.
        engine.drops.extend(hand)
        hand.clear()
        if failure is not None:
            # Closed like one that is no longer wanted: it may hold files.
            engine.fail(self, None, failure)
        elif ended:
            self._end_pass()
        return None

    def _end_pass(self) -> None:
        self.finish_pass()
        if self.continuous:
            self.end_epoch()
        else:
            self.run_out()

    def _take_first(self, hand: list[Any]) -> None:
        leg = self.begin_pass()
        if leg is not None:
            self.iterator = ResumedIterator(self.iterable, leg)
            self.again = self._admit_again
        else:
            # The rest of the earlier pass may have been empty.
            self.again = None
            self.iterator = _iterate(self.iterable)
        # Making the iterator may have taken long.
        if not self.engine.stopping:
            hand.append(next(self.iterator))
            if leg is None:
                assert self.current is not None
                self.current.note_first(hand[0])

    def _admit_again(self) -> int:
        """Return the root of an item that an earlier run had pulled, and admit the first one that it had not."""
        iterator = self.iterator
        assert isinstance(iterator, ResumedIterator)
        if iterator.taken is not None:
            return self.root_at(iterator.taken)
        self.again = None
        self.iterator = iterator.rest
        return self.engine.lineage.admit(self.index)

    def note_wait(self, now: float) -> None:
        """Note how long this pull was put off, since the item before had no place after it."""
        counters = self.counters
        self.engine.page.rows[get_ident()][self.column] = now
        if self.pulled_at:
            self.output.counters.put_times.add(now - self.pulled_at, counters.weight)
            counters.choose_next_of(counters.emitted, now)

    def admit(self) -> int:
        self.counters.emitted += 1
        return self.engine.lineage.admit(self.index)

    def admit_again(self, position: int) -> int:
        """Return the root of an item that an earlier run had pulled. Called with the lock held."""
        self.counters.emitted += 1
        return self.root_at(position)

    def index_of(self, root: int, place: int) -> int:  # noqa: ARG002 - only where ops ask it is known.
        """Return the index of an item that is in flight, and at some place of its pass."""
        return place

    def root_at(self, position: int) -> int:
        return position * self.engine.lineage.sources + self.index

    def put(self, root: int, value: Any) -> None:
        if self.engine.budget is not None:
            self.engine.budget.note(self.output, root, value)
        self._pass_on((root, value))

    def _pass_on(self, entry: Entry) -> None:
        if self.next_stage is None:
            self.output.put(entry, self.pulled_at)
            return
        self.output.put_in_place(entry, self.pulled_at)
        self.engine.arrived(self.next_stage)

    # ---- its end ----

    def finish_pass(self) -> None:
        """Note that a pass has ended, by itself and not because it was interrupted. Called with the lock held."""
        if self.current is not None and self.current.end is None and self.is_wanted():
            self.current.finish(self.engine.lineage.next_position(self.index))

    def end_epoch(self) -> None:
        """Pass on that a pass over a continuous source has ended. Called with the lock held."""
        position = self.counters.emitted
        if self.iterator is self.iterable and position == self.pass_began_at:
            error = RuntimeError(
                f"The continuous source {type(self.iterable).__name__!r} is its own iterator and gave nothing when it "
                "was iterated again: like a generator, it does not start again. Give an iterable that does, such as an "
                "object whose `__iter__` makes a generator."
            )
            self.exhausted = True
            self.engine.fail(self, None, error)
            return
        self.pass_began_at = position
        # Its finalizer is the user's, so it is dropped without the lock.
        self.engine.drops.append(self.iterator)
        self.iterator = None
        if self.is_wanted() and self.unread:
            if self.next_stage is None:
                self.engine.sink.put_mark()
            else:
                self._pass_on(MARK)

    def run_out(self) -> None:
        self.exhausted = True
        self.end()

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self.engine.input_ends()
            self.ended_at = perf_counter()

    def is_wanted(self) -> bool:
        """Return whether its items are still wanted. If not, the stages downstream may have ended."""
        return not (self.ended or self.engine.stopping)

    def must_be_closed(self) -> bool:
        """Return whether a worker has to close it, since it ended early. Called with the lock held."""
        wanted = self.is_wanted()
        elsewhere = self.on_loop or self.dedicated is not None
        return not (wanted or elsewhere or self.pulling or self.closing or self.exhausted)

    def close(self) -> None:
        """Close the iterator after an early end. Called and returns with the lock held; it releases the lock."""
        engine = self.engine
        # `stop` waits for it: a source that is pulled may block forever, one that is closed may have to commit.
        self.closing = True
        engine.lock.release()
        failure: BaseException | None = None
        iterator, self.iterator = self.iterator, None
        try:
            if not self.exhausted and iterator is not None and hasattr(iterator, "close"):
                iterator.close()
        except BaseException as error:  # noqa: BLE001 - it becomes the pipeline's failure.
            failure = error
        del iterator
        engine.lock.acquire()
        self.closing = False
        self.exhausted = True
        if failure is not None:
            engine.fail(self, None, failure)

    def let_go(self) -> list[Any]:
        kept = [self.iterable, self.iterator, self.identity.let_go()]
        self.iterable, self.iterator = (), None
        return kept

    def give_up_work(self) -> bool:
        """Pull no more, since the stage that it feeds was given up. Called with the lock held."""
        self.unwanted = True
        self.end()
        self.interrupt()
        return True

    def is_finished(self) -> bool:
        # After a failure, or if it was given up, no thread waits for a source, which may block forever: what it
        # yields is discarded.
        return self.ended and (not self.pulling or self.unwanted or bool(self.engine.failures))

    def interrupt(self) -> None:
        """Wake the thread that waits in or for the source, as far as that is possible. Needs no lock."""
        if self.dedicated is not None:
            self.dedicated.wake()
        iterator = self.iterator
        # A user's iterator may lie about its `__class__`, or fail to tell.
        if issubclass(type(iterator), Interruptible):
            iterator.interrupt()

    # ---- room ----

    def want_room(self) -> None:
        self.wants_room = True

    def stop_wanting_room(self) -> None:
        self.wants_room = False

    def room_made(self) -> None:
        """Called with the lock held when a place may have become free."""
        if self.dedicated is not None:
            self.dedicated.wake()
        elif self.engine.event_loop is not None:
            self.engine.event_loop.wake()

    # ---- what it has counted ----

    def busy_seconds(self, now: float) -> float:
        return self.counters.busy_seconds + (max(0.0, now - self.pulling_since) if self.pulling else 0.0)

    def blocked_seconds(self, now: float) -> float:
        return max(0.0, min(now, self.ended_at or now) - self.engine.started_at - self.busy_seconds(now))


def _iterate(iterable: Any) -> Any:
    try:
        return iter(iterable)
    except StopIteration as error:
        # It would look like the end of an empty source.
        raise RuntimeError("The source's `__iter__` raised StopIteration.") from error
