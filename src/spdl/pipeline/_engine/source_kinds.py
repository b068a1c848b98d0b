"""Sources that are pulled in another way: by the event loop, by their own thread, or with contexts of items."""

from __future__ import annotations

from typing import Any

from spdl._counted import bytes_of_thread
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.lifetime import end_forked_child
from spdl.pipeline._engine.source import Source
from spdl.pipeline._engine.workers import EventLoop
from spdl.pipeline._report.page import IDLE
from spdl.pipeline._state.passes import resumed_async
from spdl.pipeline._world import Lock, Thread, get_ident, perf_counter


class DedicatedThread:
    """Pulls one source from beginning to end: ``iter()``, each ``next()`` and ``close()``.

    For iterators that are bound to a thread: database cursors of sqlite3, thread-local modes, some native readers.
    Handing each item to a worker costs more than pulling it there, so it is not the default.
    """

    def __init__(self, engine: Engine, source: Source) -> None:
        self._engine = engine
        self._source = source
        self._gate = Lock()
        self._gate.acquire()
        self.thread = Thread(
            target=self._run, name=f"spdl_source_thread_{engine.pipeline_id}_{source.index}", daemon=True
        )

    def wake(self) -> None:
        """Make the thread look again. Needs no lock."""
        try:
            self._gate.release()
        except RuntimeError:  # It is open already: the thread is about to look.
            return

    def _run(self) -> None:
        try:
            self._pull_all()
        except BaseException as error:  # noqa: BLE001 - the consumer must get an error instead of waiting forever.
            self._engine.crash(error)
        self._engine.letting_go.thread_ends()

    def _pull_all(self) -> None:
        # Returns with the lock held.
        engine, source = self._engine, self._source
        engine.lock.acquire()
        engine.letting_go.thread_begins()
        row = engine.page.enter(get_ident())
        while not (engine.is_over() or source.ended):
            source.want_room()
            if source.has_place():
                source.stop_wanting_room()
                hand: list[Any] = []
                root = source.pull(hand)
                if root is not None:
                    source.put(root, hand.pop())
                engine.concluded()
                if engine.drops:
                    engine.drop_deferred()
            else:
                row[IDLE] = perf_counter()
                engine.lock.release()
                self._gate.acquire()
                engine.lock.acquire()
        if engine.forked:
            end_forked_child(engine)
        engine.page.leave(get_ident())
        if not source.exhausted:
            source.close()
            engine.concluded()


class AsyncSource(Source):
    """An async iterable, which one task of the event loop pulls from beginning to end."""

    __slots__ = ()

    async def serve(self, event_loop: EventLoop) -> None:
        engine = self.engine
        failure: BaseException | None = None
        try:
            while await self._pull_epoch(event_loop):
                with engine.lock:
                    self.end_epoch()
                    engine.progressed()
                    engine.drop_deferred()
        except BaseException as error:
            if engine.is_over():
                raise
            failure = error
        finally:
            with engine.lock:
                self.run_out()
                if failure is not None:
                    engine.fail(self, None, failure)
                engine.concluded()

    async def _pull_epoch(self, event_loop: EventLoop) -> bool:
        """Iterate the iterable once. Return whether another epoch follows."""
        engine = self.engine
        if not self.is_wanted():
            return False
        leg = self.begin_pass()
        # In a pass that an earlier run began, each item comes with its position.
        iterator: Any = aiter(self.iterable) if leg is None else resumed_async(self.iterable, leg)
        self.iterator = iterator
        ended = False
        begun = leg is not None
        try:
            while await self._place_in_front(event_loop) and not engine.stopping:
                begin = perf_counter()
                self.note_wait(begin)
                self.pulling_since = begin
                try:
                    value = await anext(iterator)
                except StopAsyncIteration:
                    ended = True
                    break
                finally:
                    self.pulled_at = perf_counter()
                    self.counters.busy_seconds += self.pulled_at - begin
                    self.counters.bytes_read += bytes_of_thread()
                position = None
                if leg is not None:
                    position, value = value
                elif not begun:
                    begun = True
                    assert self.current is not None
                    self.current.note_first(value)
                with engine.lock:
                    # Until then a budget of bytes expects the item.
                    self.pulling = False
                    if self.is_wanted():
                        self.put(self.admit() if position is None else self.admit_again(position), value)
                        engine.progressed()
                del value
            if ended:
                if (failure := self.note_end()) is not None:
                    raise failure
                with engine.lock:
                    self.finish_pass()
        finally:
            self.pulling = False
            # An iterable that is its own iterator may have more to give in the next epoch.
            if hasattr(iterator, "aclose") and not (ended and self.continuous and iterator is self.iterable):
                await self._aclose(iterator, event_loop)
        return ended and self.continuous and not self.ended

    async def _aclose(self, iterator: Any, event_loop: EventLoop) -> None:
        self.closing = True
        try:
            # A request to stop does not interrupt it, whether it comes before or now.
            await event_loop.close(iterator)
        finally:
            self.closing = False

    async def _place_in_front(self, event_loop: EventLoop) -> bool:
        engine = self.engine
        while True:
            with engine.lock:
                if engine.stopping or self.ended:
                    return False
                if self.has_place():
                    self.pulling = True
                    return True
                self.want_room()
                room = event_loop.wait_for_room()
            await room


# That many indices are kept before those are looked for whose items are gone.
_FEW = 1_000


class IndexedSource(Source):
    """A source that keeps the items in flight that are ints, by their roots."""

    __slots__ = ("_indices", "_most")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._indices: dict[int, int] = {}
        self._most = _FEW

    def pull(self, hand: list[Any]) -> int | None:
        root = super().pull(hand)
        if root is not None:
            self._note(root, hand[0])
        return root

    def put(self, root: int, value: Any) -> None:
        if self.on_loop:
            self._note(root, value)
        super().put(root, value)

    def _note(self, root: int, item: Any) -> None:
        if type(item) is not int:
            return
        self._indices[root] = item
        if len(self._indices) >= self._most:
            is_out = self.engine.lineage.is_out
            self._indices = {each: index for each, index in self._indices.items() if is_out(each)}
            self._most = 2 * len(self._indices) + _FEW

    def index_of(self, root: int, place: int) -> int:
        return self._indices.get(root, place)


class IndexedAsyncSource(IndexedSource, AsyncSource):
    """The same for a source that the event loop's thread pulls."""

    __slots__ = ()


class Placed:
    """An iterable whose items come from another source, and which knows from where."""

    def place_of(self, position: int) -> tuple[int, int]:
        """Return the epoch of the item at a position here, which is in flight, and its place in that pass there."""
        raise NotImplementedError


class PlacedSource(IndexedSource):
    """The same for what knows where its items come from: `ItemContext` tells about that place."""

    __slots__ = ()

    def locate(self, position: int) -> tuple[int, int]:
        placed: Placed = self.iterable
        return placed.place_of(position)
