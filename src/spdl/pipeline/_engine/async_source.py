"""A source that the event loop's thread pulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._counted import bytes_of_thread
from spdl.pipeline._failures.cancellation import current_task
from spdl.pipeline._world import perf_counter

from .resumption import resumed_async
from .source import Source

if TYPE_CHECKING:
    from .event_loop import EventLoop

__all__ = ["AsyncSource"]


class AsyncSource(Source):
    """An async iterable, which one task of the event loop pulls from beginning to end."""

    __slots__ = ()

    async def serve(self, event_loop: EventLoop) -> None:
        """Pull all items. This is the body of the task."""
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
        leg = self.begin_pass(self.engine.lineage, self.engine.epochs_read)
        # Of a pass that an earlier run had begun, each item comes with its position.
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
                    self.note_first(value)
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
        task = current_task()
        self.closing = True
        # A request to stop does not interrupt it, whether it comes before or now.
        event_loop.closing.add(task)
        try:
            await iterator.aclose()
        finally:
            event_loop.closing.discard(task)
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
