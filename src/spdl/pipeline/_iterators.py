"""Reading a pipeline: waiting for an entry of the sink, the iterator over all of them, and one that repeats a few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar

from spdl._check import check_flag, check_int, positive, refuse
from spdl._locate import warn_caller
from spdl.pipeline._engine.channel import EPOCH_END, Entry
from spdl.pipeline._state.origins import Group
from spdl.pipeline._state.passes import Interruptible
from spdl.pipeline._world import TIMEOUT_MAX, Lock, monotonic, perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._pipeline import Pipeline


def took(engine: Engine, root: Any) -> None:
    """Acknowledge an entry that was popped from the sink."""
    if isinstance(root, Group):
        with engine.lock:
            engine.lineage.deliver(root)
            engine.progressed()
    elif root is EPOCH_END:
        warn_of_nothing(engine)
    else:
        engine.lineage.deliver_position(root)
    if not engine.sink.entries:
        engine.sink.counters.emptied(perf_counter())
    if engine.sink.full:
        _announce_room(engine)


def hand_over(engine: Engine, root: Any) -> tuple[dict[object, Any], object]:
    """Acknowledge an item that was popped from the sink, and note that its consumer does not have it yet.

    Until that note, a key of the dict, is deleted, the item counts as not received. Signal handlers run only after
    calls, where functions begin and where loops go back. So a caller that deletes the note by a statement, and does
    nothing afterwards but return, is not interrupted in between. The note of a read that a Ctrl-C ends stays.
    """
    notes, key = engine.lineage.in_hand, object()
    notes[key] = root
    took(engine, root)
    return notes, key


class Waits(Protocol):
    """Waits for entries of a sink."""

    def _wait(self, deadline: float) -> bool: ...


def next_entry(engine: Engine, reader: Waits, timeout: float | None) -> Entry | None:
    """Take the next item from the sink; return None if the epoch has ended, or the reader waits no longer."""
    deadline = None
    entry: Entry | None
    while True:
        try:
            entry = engine.sink.entries.popleft()
        except IndexError:
            # A TimeoutError shows nothing of this exception.
            entry = None
        if entry is not None:
            if entry[0] is not EPOCH_END:
                return entry
            took(engine, EPOCH_END)
            return None
        if deadline is None:
            deadline = inf if timeout is None else monotonic() + timeout
        if not reader._wait(deadline):  # noqa: SLF001 - the readers are this package's own.
            return None


def _announce_room(engine: Engine) -> None:
    # A read that interrupts the engine cannot take the lock, and leaves this to the next read.
    if engine.forked or engine.holds_lock():
        return
    try:
        with engine.lock:
            engine.room_in_sink()
    finally:
        _release(engine)


def _release(engine: Engine) -> None:
    """Release the lock if a Ctrl-C has left it locked, as Python 3.14 does right after a ``with`` has taken it.

    See https://github.com/python/cpython/issues/148874. Outside of these statements, no read has it.
    """
    while engine.holds_lock():
        engine.lock.release()


def wait(engine: Engine, deadline: float, gate: Lock | None) -> bool:
    """Wait until the sink may hold an entry or the gate, a lock that was taken, is opened; return False at the end.

    Raises a TimeoutError at the deadline, as `time.monotonic` tells it.
    """
    if gate is None:
        gate = Lock()
        gate.acquire()
    opened = False
    begin = perf_counter()
    try:
        with engine.lock:
            if engine.sink.entries:
                return True
            engine.found_nothing()
            ended = engine.done or engine.stopping
            if not ended:
                engine.sink.readers.append(gate)
                # With the lock, as the first worker may be about to replace the page.
                engine.page.consumer_waits(begin)
                # A request to stop takes no lock: it may have looked for readers before this one was among them.
                ended = engine.stopping
        if ended:
            engine.page.consumer_waits(0.0)
            return False
        opened = gate.acquire(timeout=min(TIMEOUT_MAX, max(0.0, deadline - monotonic())))
        engine.page.consumer_waits(0.0)
        if not opened or engine.sink.entries:
            engine.sink.counters.awaited(perf_counter() - begin)
    finally:
        _release(engine)
        # A Ctrl-C may leave the gate there, and the page saying that a consumer waits: nothing depends on that.
        with suppress(ValueError):
            engine.sink.readers.remove(gate)
    if not opened and not engine.sink.entries:
        raise TimeoutError(
            f"No item became available in time: none came in {perf_counter() - begin:.3g} seconds. Nothing is "
            "lost, and the next read continues. `statistics()` says which stage keeps the others waiting; "
            "a longer `timeout` (in seconds), or None, waits for it"
        )
    return True


def check_usable(engine: Engine, verb: str) -> None:
    if engine.forked:
        raise RuntimeError(
            "The pipeline was started before this process was forked, and its threads stayed in the parent. "
            "Build a pipeline in the child, or start processes by the 'spawn' or 'forkserver' method."
        )
    if engine.holds_lock() or (verb == "read" and engine.is_mine()):
        raise RuntimeError(
            f"The pipeline was {verb} from within itself, so it would wait for itself: in one of its ops, or in a "
            "finalizer or a signal handler that interrupted it."
        )


def warn_of_nothing(engine: Engine) -> None:
    """Warn if no source has given anything, or ops have dropped everything: a loop over nothing looks like success."""
    if engine.has_pulled():
        if (culprit := engine.drops_everything()) is not None:
            warn_caller(
                f"Nothing came out of the pipeline: stage {culprit.name!r} dropped {culprit.counters.dropped} "
                "items, since its op returned None for them. A `return` may be missing, or a filter may be wrong. An "
                "op that is there for its effect returns its item."
            )
        return
    kinds = ", ".join(repr(source.identity.type) for source in engine.sources)
    warn_caller(
        f"The source of the pipeline ({kinds}) has yielded nothing, so the pipeline does. A path or a filter may be "
        "wrong, or the source may be an iterator that was used before: give an iterable that starts again, such as a "
        "list or an object whose `__iter__` makes a generator."
    )


T = TypeVar("T")


class PipelineIterator(Interruptible, Generic[T]):
    """An iterator over the items of a `Pipeline`. Once ended, it stays ended. Each ``next`` raises a failure again.

    `Pipeline.get_iterator` makes it. With a continuous source, it ends with the epoch.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> with PipelineBuilder().add_source(["a", "b"]).add_sink().build(num_threads=1).auto_stop() as pipeline:
        ...     iterator = pipeline.get_iterator(timeout=10)
        ...     print(next(iterator), next(iterator), next(iterator, "the end"))
        a b the end
    """

    __slots__ = ("_ended", "_engine", "_gate", "_out", "_pipeline", "_timeout")

    def __init__(self, pipeline: Pipeline[T], timeout: float | None) -> None:
        self._pipeline = pipeline
        self._timeout = timeout
        self._gate = Lock()
        self._engine = pipeline._engine  # noqa: SLF001 - the two classes belong together.
        self._ended = False
        self._out = self._engine.lineage.removable

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        root, value = self._take()
        out, sink = self._out, self._engine.sink
        # The usual case makes no call of `hand_over`, because it runs for each item in the consumer's thread.
        if root in out and not sink.full:
            if not sink.entries:
                sink.counters.emptied(perf_counter())
            # As with the notes of `hand_over`: a call of `remove` could be interrupted before the item is returned.
            out -= {root}
            return value
        notes, key = hand_over(self._engine, root)
        del notes[key]
        return value

    def _take(self) -> tuple[Any, T]:
        """Return the next item and its root, which counts as received only when that is acknowledged."""
        entry = None if self._ended else next_entry(self._engine, self, self._timeout)
        if entry is None:
            self._ended = True
            raise StopIteration
        return entry

    def _wait(self, deadline: float) -> bool:
        # Each wait has its own gate, because threads that share an iterator must not open each other's.
        self._gate = gate = Lock()
        gate.acquire()
        if not self._ended:
            try:
                self._pipeline._wait(deadline, gate)  # noqa: SLF001
            except EOFError:
                self._ended = True
        return not self._ended

    def interrupt(self) -> None:
        """End the iteration, even for a thread that waits in ``next()``. Takes no lock."""
        self._ended = True
        try:
            self._gate.release()
        except RuntimeError:  # No thread waits.
            return


def cache_iterator(
    src: Iterable[T],
    num_caches: int,
    *,
    return_caches_after: int | None = None,
    stop_after: int | None = None,
    delete_src: bool = True,
) -> Iterator[T]:
    """Yield items of ``src``, cache the first ones, and then yield the cached items over and over.

    The speed of a training loop on cached batches is the speed that it would have if loading took no time.

    Args:
        src: The iterable that the items come from.
        num_caches: How many items to cache, at least 1. They stay in memory.
        return_caches_after: How many items to take from ``src`` before the cached items repeat. The default is
            ``num_caches``.
        stop_after: How many items to yield in all, at least as many as are taken from ``src``. None never stops.
            If the source ends sooner, the cached items repeat. If the source is empty, the iterator ends at once.
        delete_src: Whether to drop the reference to ``src`` once it is no longer needed, so that it can be collected
            and its memory freed.

    Yields:
        The items themselves, not copies. If you change one in place, it is still changed the next time.

    Raises:
        TypeError, ValueError: At the call, if an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import cache_iterator
        >>> list(cache_iterator(range(100), 2, return_caches_after=3, stop_after=8))
        [0, 1, 2, 0, 1, 0, 1, 0]
    """
    kind = type(src)
    if not (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
        refuse(TypeError, "src", "an iterable", src)
    num_caches = taken = positive("num_caches", num_caches)
    if return_caches_after is not None:
        accepted = f"None or an int of at least `num_caches` ({num_caches})"
        taken = check_int("return_caches_after", return_caches_after, least=num_caches, accepted=accepted)
    if stop_after is not None:
        accepted = f"None or an int of at least {taken}, the items taken from the source"
        stop_after = check_int("stop_after", stop_after, least=taken, accepted=accepted)
    delete_src = check_flag("delete_src", delete_src)
    return _Caching(iter(src), num_caches, taken, stop_after, None if delete_src else src)


class _Caching(Generic[T]):
    # Not a generator: a TimeoutError of the source would end it, and the next read should continue.

    def __init__(self, source: Iterator[T], num_caches: int, taken: int, stop_after: int | None, kept: object) -> None:
        self._source: Iterator[T] | None = source
        self._num_caches = num_caches
        # How many items are still to be taken from the source, and how many may still be yielded.
        self._to_take = taken
        self._left = stop_after
        self._kept = kept
        self._cached: list[T] = []
        self._following = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._left == 0:
            self._end()
        item = self._take() if self._source is not None else self._repeat()
        if self._left is not None:
            self._left -= 1
        return item

    def _take(self) -> T:
        assert self._source is not None
        if self._to_take:
            try:
                item = next(self._source)
            except StopIteration:
                # A source that is shorter repeats the items that it had.
                self._to_take = 0
            except TimeoutError:
                # The next read continues.
                raise
            except BaseException:
                # Repeating what came before would hide that the source has failed.
                self._let_go()
                raise
            else:
                self._to_take -= 1
                if len(self._cached) < self._num_caches:
                    self._cached.append(item)
                return item
        self._source = None
        return self._repeat()

    def _repeat(self) -> T:
        # An empty source ends here.
        if not self._cached:
            self._end()
        item = self._cached[self._following]
        self._following = (self._following + 1) % len(self._cached)
        return item

    def _end(self) -> NoReturn:
        self._let_go()
        raise StopIteration

    def _let_go(self) -> None:
        self._source = self._kept = None
        self._cached.clear()
        self._left = 0
