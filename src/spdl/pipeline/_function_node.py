"""Stages whose op is a function: of one result, or of a generator's many."""

from __future__ import annotations

from collections import deque
from time import perf_counter, thread_time
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from ._failure import report_failed_item
from ._lineage import Group
from ._node import HELD, Node
from ._order import AHEAD, Order, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._engine import Engine
    from ._lineage import Root

__all__ = ["DEFERRED", "FunctionNode", "Parked"]

# Types of result that stand for results to come.
DEFERRED = frozenset([GeneratorType, CoroutineType, AsyncGeneratorType])

# Reading a thread's CPU clock costs 0.4 microseconds, so for ops shorter than this only one in 16 is measured.
_SHORT_OP = 50e-6
_CPU_MASK = 15


class Parked(NamedTuple):
    """A generator between two turns. It keeps its slot."""

    root: Group
    iterator: Iterator[Any]
    ticket: Ticket | None


class FunctionNode(Node):
    """A stage that calls ``op(item)``.

    What the call returns decides what follows: a value moves on, None drops the item, a generator is advanced by one
    result per turn, a coroutine or an async generator is handed to the event loop. So lambdas, partials and callable
    objects that return one of these need no declaration.
    """

    __slots__ = ("expand", "order", "parked")

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        limit: int,
        *,
        order: Order | None = None,
        expand: bool = False,
    ) -> None:
        super().__init__(engine, name, op, limit)
        self.order = order
        # The result is an iterator whatever its type.
        self.expand = expand
        self.plain = order is None and not expand
        self.parked: deque[Parked] = deque()

    def ready(self) -> bool:
        if self.parked and self._can_advance():
            return True
        return self.can_start()

    def can_start(self) -> bool:
        """Whether an op could start on the item at the head of the queue."""
        if not self.queue or self.running >= self.limit:
            return False
        order = self.order
        if order is not None and len(order.tickets) >= self.limit + AHEAD:
            self.wait(HELD)
            return False
        return self.has_room(self.running - len(self.parked))

    def _can_advance(self) -> bool:
        if self.order is None:
            return self.may_emit(None)
        return any(self.may_emit(parked.ticket) for parked in self.parked)

    def may_emit(self, ticket: Ticket | None) -> bool:
        """Whether one more result of the item with this ticket has a place to go."""
        under_way = self.running - len(self.parked)
        if ticket is None:
            return self.has_room(under_way)
        assert self.order is not None
        # The head's results go on; those of the others wait in their tickets.
        if self.order.is_head(ticket):
            return self.has_room(0)
        return self.order.buffered + under_way < self.limit + AHEAD

    def drained(self) -> bool:
        return not self.queue and not self.running and not self.parked

    def discard(self) -> list[Any]:
        rubbish = super().discard()
        rubbish += self.parked
        self.engine.waiting -= len(self.parked)
        self.running -= len(self.parked)
        self.parked.clear()
        return rubbish

    def turn(self) -> None:
        parked = self._take_parked()
        if parked is not None:
            self._advance(parked)
        else:
            self._start()

    def _take_parked(self) -> Parked | None:
        if not self.parked or not self._can_advance():
            return None
        self.engine.waiting -= 1
        for index, parked in enumerate(self.parked):
            if self.may_emit(parked.ticket):
                del self.parked[index]
                return parked
        raise AssertionError("A parked generator that could advance is gone.")

    def take(self) -> tuple[Root, Any, Ticket | None]:
        """Take the head of the queue and a slot for it."""
        root, value = self.engine.dequeue(self)
        self.running += 1
        self.started(perf_counter())
        return root, value, None if self.order is None else self.order.admit()

    def _start(self) -> None:
        root, value, ticket = self.take()
        self.engine.release_to_user()
        cpu, start = self.read_cpu(), perf_counter()
        try:
            value = self.op(value)
        except BaseException as error:  # noqa: BLE001 - whatever an op raises becomes the item's or pipeline's failure.
            del value
            self._account(start, cpu)
            self.fail(root, ticket, error)
            return
        self._account(start, cpu)
        self.finish(root, ticket, value)

    def _advance(self, parked: Parked) -> None:
        """Ask a generator for one more result."""
        self.engine.release_to_user()
        cpu, start = self.read_cpu(), perf_counter()
        try:
            value = next(parked.iterator)
        except StopIteration:
            self._account(start, cpu)
            self.completed += 1
            self.end(parked.root, parked.ticket)
            return
        except BaseException as error:  # noqa: BLE001 - as above.
            self._account(start, cpu)
            self.fail(parked.root, parked.ticket, error)
            return
        self._account(start, cpu)
        self.park(parked, value)

    def read_cpu(self) -> float | None:
        """The thread's CPU clock, or None if this op is not sampled."""
        return None if self.completed & self.cpu_mask else thread_time()

    def _account(self, start: float, cpu: float | None) -> None:
        """Take the lock again after an op, and add up its time."""
        seconds = perf_counter() - start
        if cpu is not None:
            cpu = thread_time() - cpu
        self.engine.lock.acquire()
        self.busy_seconds += seconds
        if cpu is not None:
            self.add_cpu(seconds, cpu)

    def add_cpu(self, seconds: float, cpu: float) -> None:
        """Add a sampled op's CPU time, standing for those that were not, and choose how often to sample."""
        # The clock's own cost shows on the shortest ops; a thread cannot use more time than passes.
        self.cpu_seconds += min(cpu, seconds) * (self.cpu_mask + 1)
        self.cpu_mask = _CPU_MASK if seconds < _SHORT_OP else 0

    def finish(self, root: Root, ticket: Ticket | None, value: Any) -> None:
        """Deal with what an op returned. Called with the lock held."""
        if self.cancelled:
            self._release_slot()
        elif self.expand or value.__class__ in DEFERRED:
            self.defer(root, ticket, value)
        elif value is None:
            self.completed += 1
            self.dropped += 1
            self.end(root, ticket)
        else:
            # The result takes over its item's place in the lineage.
            self.completed += 1
            self.emit(ticket, root, value)
            self._complete(ticket)

    def defer(self, root: Root, ticket: Ticket | None, value: Any) -> None:
        """Arrange for the results that ``value`` stands for."""
        # From now on its ops take the way that knows generators.
        self.plain = False
        if value.__class__ is CoroutineType or value.__class__ is AsyncGeneratorType:
            self.engine.start_lane().adopt(self, root, ticket, value)
        else:
            self.parked.append(Parked(Group([root], 1), value, ticket))
            self.engine.waiting += 1

    def park(self, parked: Parked, value: Any) -> None:
        """Pass on one result of a generator, and put the generator back. Called with the lock held."""
        if self.cancelled:
            self._release_slot()
            return
        if value is None:
            self.dropped += 1
        else:
            parked.root.pending += 1
            self.emit(parked.ticket, parked.root, value)
        self.parked.append(parked)
        self.engine.waiting += 1

    def emit(self, ticket: Ticket | None, root: Root, value: Any) -> None:
        """Pass a result on, now or when its ticket's turn comes. Called with the lock held."""
        self.emitted += 1
        if ticket is None:
            self.engine.emit(self, (root, value))
        else:
            assert self.order is not None
            for entry in self.order.add(ticket, (root, value)):
                self.engine.emit(self, entry)

    def end(self, root: Root, ticket: Ticket | None) -> None:
        """End an item of which nothing is left here. Called with the lock held."""
        self.engine.source.lineage.release(root)
        self._complete(ticket)

    def _complete(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            assert self.order is not None
            for entry in self.order.complete(ticket):
                self.engine.emit(self, entry)
            # An async generator behind a later ticket may have waited for its turn.
            if self.wants_room and self.engine.lane is not None:
                self.engine.lane.wake()
        self._release_slot()

    def _release_slot(self) -> None:
        self.running -= 1
        self.ended(perf_counter())

    def fail(self, root: Root, ticket: Ticket | None, error: BaseException) -> None:
        """End an item whose op raised. Called with the lock held, which it releases for a moment to log."""
        self.failed += 1
        engine = self.engine
        if not isinstance(error, Exception):
            self._release_slot()
            engine.fail(self, root, error)
            return
        count = self.failed
        engine.release_to_user()
        report_failed_item(self.name, root, error, count)
        del error
        engine.lock.acquire()
        self.end(root, ticket)
