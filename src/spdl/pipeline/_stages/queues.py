"""Users' own queues between stages, and users' own merges. Both run on the event loop."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from spdl.pipeline._declare.interfaces import AsyncQueue
from spdl.pipeline._declare.records import StageInfo
from spdl.pipeline._engine.cancellation import not_cancelled
from spdl.pipeline._engine.channel import CAPACITY, EOF, EPOCH_END, MARK, Channel
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import JoiningNode, Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._state.origins import Root


class Inside(NamedTuple):
    """An object that was put in, after so many ends of epochs, and has not come out."""

    root: Root
    item: Any
    epoch: int


class QueueContents:
    """The objects that were put into a user's queue and have not come out.

    User code sees only the items, so an item's root is looked up by its identity. An object that was never put in, such
    as a wrapped item, stands for the oldest object that is still inside.
    """

    def __init__(self) -> None:
        # How many ends of epochs were put in.
        self.epochs = 0
        # By identity. The items are held as well, so that no identity is used twice.
        self._inside: dict[int, list[Inside]] = {}

    def __bool__(self) -> bool:
        return bool(self._inside)

    def __contains__(self, item: object) -> bool:
        return id(item) in self._inside

    def end_epoch(self) -> None:
        self.epochs += 1

    def add(self, root: Root, item: Any) -> None:
        self._inside.setdefault(id(item), []).append(Inside(root, item, self.epochs))

    def take(self, item: Any) -> Inside | None:
        """Remove and return the entry of an object that came out; None if nothing is inside."""
        key = id(item) if item in self else next(iter(self._inside), None)
        if key is None:
            return None
        entries = self._inside[key]
        taken = entries.pop(0)
        if not entries:
            del self._inside[key]
        return taken

    def of_epochs_before(self, epoch: int) -> list[Inside]:
        return [entry for entries in self._inside.values() for entry in entries if entry.epoch < epoch]

    def clear(self) -> list[Inside]:
        left = [entry for entries in self._inside.values() for entry in entries]
        self._inside = {}
        return left


class ConveyorNode(JoiningNode):
    """A node that moves items from its inlets through queues to the next stage. User code sees only the items.

    One task of the event loop does all of this, from the start of the pipeline to the end of its input.
    """

    __slots__ = ("asking", "begun", "contents", "ending", "over")

    hides_items = True

    on_loop = True

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name)
        self.contents = QueueContents()
        # True once the task was started, and once it has ended.
        self.begun = self.over = False
        # True while user code is asked for the next object, and once it has received the end of an inlet.
        self.asking = self.ending = False

    @abstractmethod
    async def carry(self) -> None:
        """Move all items. Return when the input has ended and all of it has come out."""

    def places_in_slots(self) -> int:
        # Finished items do not count towards its concurrency: they stay in its queue.
        return 0

    def end_input(self) -> bool:
        return self.over

    def discard(self) -> list[Any]:
        return [*self.contents.clear(), *super().discard()]

    def wants_server(self) -> bool:
        wanted = not self.begun
        self.begun = True
        return wanted

    async def serve(self) -> None:
        engine = self.engine
        failure: BaseException | None = None
        try:
            await self.carry()
        except BaseException as error:
            if engine.is_over():
                raise
            # Only the engine cancels from outside, so a CancelledError of a queue or a merge is its own failure.
            failure = not_cancelled(error)
        finally:
            with engine.lock:
                self.over = True
                if failure is not None:
                    engine.fail(self, None, failure)
                engine.concluded()

    async def feed(self, index: int, queue: asyncio.Queue[Any]) -> None:
        """Put everything that arrives at an inlet into a queue, and finally the end of the input."""
        engine = self.engine
        event_loop = engine.event_loop
        assert event_loop is not None
        entries = self.inlets[index].entries
        while not (self.cancelled or engine.stopping):
            item = waiter = None
            with engine.lock:
                if entries:
                    item = self._take(index)
                elif self.feeders[index].is_finished():
                    item = EOF
                    self.ending = True
                else:
                    waiter = event_loop.wait_for_room()
            if waiter is not None:
                await waiter
                continue
            await queue.put(item)
            if item is EOF:
                return

    def _take(self, index: int) -> Any:
        inlet = self.inlets[index]
        entry = inlet.take_uncounted(item=inlet.entries[0] is not MARK)
        self.engine.made_room(self.feeders[index])
        self.engine.concluded()
        if entry is MARK:
            self.contents.end_epoch()
            self.mark_goes_in(index)
            return EPOCH_END
        root, item = entry
        self.contents.add(root, item)
        return item

    async def drain(self, queue: asyncio.Queue[Any]) -> None:
        while not self.cancelled:
            self.asking = True
            item = await queue.get()
            self.asking = False
            if item is EOF:
                return
            await self._pass_on(item)

    @abstractmethod
    def root_of(self, item: Any) -> Root:
        """Return the root of an object that came out. Called with the lock held."""

    def mark_goes_in(self, index: int) -> None:
        """Called with the lock held when the end of an epoch is taken from an inlet."""

    def mark_came_out(self) -> bool:
        """Return whether the end of an epoch that came out is passed on. Called with the lock held."""
        return True

    async def _pass_on(self, item: Any) -> None:
        engine = self.engine
        event_loop = engine.event_loop
        assert event_loop is not None
        while True:
            with engine.lock:
                if self.cancelled or engine.stopping:
                    return
                if self.has_room(0):
                    self._emit(item)
                    engine.concluded()
                    if engine.drops:
                        engine.drop_deferred()
                    return
                self.want_room()
                waiter = event_loop.wait_for_room()
            await waiter

    def _emit(self, item: Any) -> None:
        if item is EPOCH_END:
            if self.mark_came_out():
                self.engine.emit_mark(self)
            return
        root = self.root_of(item)
        self.counters.completed += 1
        self.counters.emitted += 1
        self.engine.emit(self, (root, item))


# Seconds that the end of the input may take to come out, once nothing precedes it. If the `get` of asyncio waits, the
# end is lost, since it will not be put in again. A user's own `get` may just be asleep, so it has longer.
_PATIENCE = 5.0
_PATIENCE_WITH_OWN_GET = 60.0


class QueueNode(ConveyorNode):
    """Carries one stage's output through a user's queue, and checks that each object comes out once."""

    __slots__ = ("carrier", "epochs")

    is_stage = False

    def __init__(self, engine: Engine, name: str, carrier: AsyncQueue[Any]) -> None:
        super().__init__(engine, name)
        self.carrier: Any = carrier
        # How many ends of epochs have come out.
        self.epochs = 0

    async def carry(self) -> None:
        feeding = asyncio.ensure_future(self.feed(0, self.carrier))
        draining = asyncio.ensure_future(self._drain())
        watching = asyncio.ensure_future(self._watch(feeding, draining))
        try:
            await asyncio.gather(feeding, draining, watching)
        finally:
            for task in (feeding, draining, watching):
                task.cancel()
        if self.cancelled:
            return
        lost = self._describe_lost()
        if lost:
            raise self._fault(f"lost {lost}")
        if self.epochs < self.contents.epochs:
            raise self._fault("lost the end of an epoch")

    def let_go(self) -> list[Any]:
        carrier, self.carrier = self.carrier, None
        return [*super().let_go(), carrier]

    async def _drain(self) -> None:
        await self.drain(self.carrier)
        if not (self.ending or self.cancelled):
            raise self._fault("returned the end of the input before it was put in")

    async def _watch(self, feeding: asyncio.Future[None], draining: asyncio.Future[None]) -> None:
        """Raise if the end of the input was put in and does not come out."""
        await feeding
        waited = 0.0
        while not (draining.done() or self.cancelled):
            before = self.counters.emitted
            await asyncio.wait([draining], timeout=_PATIENCE)
            carrier = self.carrier
            if self.counters.emitted != before or not (self.asking and carrier.empty()):
                waited = 0.0
                continue
            waited += _PATIENCE
            # True if `get` waits where `asyncio.Queue.get` does. No public function says so.
            waits = bool(carrier._getters)  # noqa: SLF001 - no public way.
            if waits or (not self.contents and waited >= _PATIENCE_WITH_OWN_GET):
                if draining.done() or self.cancelled:
                    return
                items = self._describe_lost()
                raise self._fault(f"lost {items}, and the end of the input" if items else "lost the end of the input")

    def root_of(self, item: Any) -> Root:
        taken = self.contents.take(item)
        if taken is None:
            raise self._fault(
                "returned an object although nothing is inside, or one object twice: one of type "
                f"{type(item).__name__!r}"
            )
        if taken.item is not item:
            self.engine.drops.append(taken)
        if taken.epoch > self.epochs:
            raise self._fault(f"lost the end of an epoch, or let {self._describe([taken.root])} overtake it")
        return taken.root

    def mark_came_out(self) -> bool:
        self.epochs += 1
        if self.epochs > self.contents.epochs:
            raise self._fault("returned the end of an epoch that has not ended")
        if left := self.contents.of_epochs_before(self.epochs):
            raise self._fault(f"lost, or let the end of an epoch overtake, {self._describe_items(left)}")
        return True

    def _describe_lost(self) -> str:
        lost = self.contents.clear()
        return self._describe_items(lost) if lost else ""

    def _describe_items(self, entries: list[Inside]) -> str:
        return f"{len(entries)} item(s): {self._describe([entry.root for entry in entries])}"

    def _describe(self, roots: Sequence[Root]) -> str:
        return self.engine.lineage.describe(self.engine.lineage.gather(list(roots)))

    def _fault(self, what: str) -> RuntimeError:
        return RuntimeError(
            f"The queue {type(self.carrier).__name__!r} of stage {self.carrier.info} {what}. Each object that is put "
            "into a queue must come out of it once, including those for which `is_eof` or `is_epoch_end` is true."
        )


class MergeOpNode(ConveyorNode):
    """A merge that runs ``op(info, input_queues, output_queue)``, which takes from the branches' queues as it likes."""

    __slots__ = ("ends", "marks", "merge")

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[StageInfo, Sequence[asyncio.Queue[Any]], asyncio.Queue[Any]], Awaitable[None]],
    ) -> None:
        super().__init__(engine, name)
        self.merge: Any = op
        # How many ends of epochs each branch has given, and how many have come out.
        self.marks: list[int] = []
        self.ends = 0

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        super().read_from(feeder, channel)
        self.marks.append(0)

    def let_go(self) -> list[Any]:
        merge, self.merge = self.merge, None
        return [*super().let_go(), merge]

    def root_of(self, item: Any) -> Root:
        taken = self.contents.take(item)
        if taken is not None and taken.item is not item:
            self.engine.drops.append(taken)
        # If nothing is inside, the op has made this object itself.
        return self.engine.lineage.gather([]) if taken is None else taken.root

    def mark_goes_in(self, index: int) -> None:
        self.marks[index] += 1

    def mark_came_out(self) -> bool:
        if self.engine.failures and any(self._lacks_end(index) for index in range(len(self.inlets))):
            # The epoch would look complete. Stages downstream still finish the items that they have.
            self.engine.cut_off(self)
            return False
        self.ends += 1
        return True

    def _lacks_end(self, index: int) -> bool:
        """Return whether a branch has ended within the epoch whose end comes out."""
        inlet = self.inlets[index]
        given = self.marks[index] + len(inlet.entries) - inlet.items()
        return given <= self.ends and self.feeders[index].is_finished()

    async def carry(self) -> None:
        inputs = [AsyncQueue[Any](feeder.info, buffer_size=CAPACITY) for feeder in self.feeders]
        output = AsyncQueue[Any](self.info, buffer_size=CAPACITY)
        feeding = [asyncio.ensure_future(self.feed(index, queue)) for index, queue in enumerate(inputs)]
        draining = asyncio.ensure_future(self.drain(output))
        producing = asyncio.ensure_future(self._produce(inputs, output))
        try:
            # If draining fails, the op must not wait for room forever.
            await asyncio.wait([producing, draining], return_when=asyncio.FIRST_COMPLETED)
            await draining
            error = await producing
        finally:
            for task in (*feeding, draining, producing):
                task.cancel()
        if error is not None:
            raise error
        engine = self.engine
        with engine.lock:
            # The op may have dropped items, or returned before its input ended. The rest is not waited for.
            # These objects go with this frame, after the lock.
            left = self.contents.clear()
            for entry in left:
                engine.lineage.drop(entry.root)
            engine.cut_off(self)

    async def _produce(self, inputs: Sequence[AsyncQueue[Any]], output: AsyncQueue[Any]) -> BaseException | None:
        """Run the op. Objects that it put out before it raised are still passed on first."""
        failure: BaseException | None = None
        try:
            await self.merge(self.info, inputs, output)
        except BaseException as error:
            if self.engine.is_over():
                raise
            # An interrupt must not leave the event loop from here.
            failure = not_cancelled(error)
        await output.put(EOF)
        return failure
