"""Stages that split a branch or join several: routers, merges, and forks that split batches."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from inspect import isawaitable
from math import inf
from types import CoroutineType
from typing import Any

from spdl._check import show
from spdl.pipeline._engine.channel import AHEAD, CAPACITY, MARK, Entry
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import Attempt, JoiningNode, Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._report.counters import BLOCKED, STARVED
from spdl.pipeline._stages.aggregate import GatheringNode
from spdl.pipeline._stages.function import AsyncNode, FunctionNode
from spdl.pipeline._stages.op_node import OpNode
from spdl.pipeline._state.origins import Group, Root


class MergeNode(JoiningNode):
    """Passes on the items of its branches as they come, one from each in turn.

    Each branch has its own queue: in a shared one a fast branch would leave no room for a slow one. No code of the
    user's is involved, so it works under the lock.
    """

    __slots__ = ("branches", "following")

    on_workers = False

    def __init__(self, engine: Engine, name: str, branches: int) -> None:
        super().__init__(engine, name)
        self.branches = branches
        # The branch whose turn it is.
        self.following = 0

    def ready(self) -> bool:
        return not self.cancelled and (self._next_branch() is not None or self._at_barrier()) and self.has_room(0)

    def turn(self) -> None:
        self.counters.wait(STARVED)
        while self.has_room(0):
            index = self._next_branch()
            if index is not None:
                self.following = (index + 1) % self.branches
                self.counters.completed += 1
                self.counters.emitted += 1
                self.engine.emit(self, self._pop(index))
            elif self._at_barrier():
                self._end_epoch()
            else:
                return

    def _pop(self, index: int) -> Entry:
        self.engine.remove_turns()
        self.engine.made_room(self.feeders[index])
        inlet = self.inlets[index]
        return inlet.take_uncounted(item=inlet.entries[0] is not MARK)

    def _at_barrier(self) -> bool:
        # An epoch ends when it has ended in every branch that may still have items.
        marked = False
        for index, inlet in enumerate(self.inlets):
            if inlet.entries:
                if inlet.entries[0] is not MARK:
                    return False
                marked = True
            elif not self.feeders[index].is_finished():
                return False
        return marked

    def _end_epoch(self) -> None:
        """Pass the end of an epoch on, unless a failure has kept a branch from reaching it."""
        marked = [index for index, inlet in enumerate(self.inlets) if inlet.entries]
        for index in marked:
            self._pop(index)
        if len(marked) < self.branches and self.engine.failures:
            # The epoch would look complete. Later stages still finish the items that have come, but no item of a later
            # epoch may follow in the place of the mark.
            self.engine.cut_off(self)
        else:
            self.engine.emit_mark(self)

    def _next_branch(self) -> int | None:
        for step in range(self.branches):
            index = (self.following + step) % self.branches
            entries = self.inlets[index].entries
            if entries and entries[0] is not MARK:
                return index
        return None


# That many items may wait for full paths before the router stops. So a slow path does not hold up the others at once.
# The reference looks as far ahead.
_LOOK_AHEAD = 32


class Routing(OpNode):
    """Calls ``router(item)``, one item at a time, and puts the item into the path with that index.

    A router that fails, or names a path that does not exist, fails the pipeline: it is not a property of one item.
    """

    __slots__ = ()

    adjustable = False
    makes_items = False

    # The first stage of each path; the plan adds them.
    paths: list[Node]

    def __init__(self, engine: Engine, name: str, router: Callable[[Any], Any]) -> None:
        super().__init__(engine, name, router, 1)
        self.plain = False
        self.paths = []  # type: ignore[misc] # It is a slot of each kind.

    def keeps_order(self) -> bool:
        return False

    def admits(self) -> bool:
        return not self.cancelled and self.running < self.concurrency and self.has_room(0)

    def has_room(self, reserved: int) -> bool:  # noqa: ARG002 - it routes one item at a time.
        if self.paths_have_room():
            return True
        self.counters.wait(BLOCKED)
        return False

    def paths_have_room(self) -> bool:
        return sum(max(0, path.input.excess()) for path in self.paths) < _LOOK_AHEAD

    def pass_mark(self) -> None:
        """Tell every path that an epoch ends. Called with the lock held."""
        self.dequeue()
        for path in self.paths:
            path.input.put(MARK)
            self.engine.arrived(path)

    def finish(self, attempt: Attempt, value: Any) -> None:
        # A generator's results cannot be the index.
        if type(value) is CoroutineType and not (self.cancelled or self.engine.stopping):
            self.await_results(attempt, value)
            return
        path: int | Exception = value
        if type(value) is not int:
            # The conversion may run the user's code, so it happens without the lock.
            self.engine.release_to_user()
            path = self._as_int(value)
            self.engine.lock.acquire()
            self.engine.drops.append(value)
        if self.cancelled or self.engine.stopping:
            self.slot_freed()
        elif isinstance(path, Exception):
            self.fail(attempt, path)
        elif not 0 <= path < len(self.paths):
            last = len(self.paths) - 1
            self.fail(attempt, IndexError(f"The router of {self.name!r} must return 0 to {last}, got {path}."))
        else:
            self.counters.completed += 1
            self.counters.emitted += 1
            following = self.paths[path]
            following.input.put((attempt.root, attempt.item))
            self.engine.arrived(following)
            self.slot_freed()

    def _as_int(self, value: object) -> int | Exception:
        try:
            return int(operator.index(value))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - whatever an `__index__` raises.
            return TypeError(f"The router of {self.name!r} must return an int, got {show(value)}.")

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        self.counters.failed += 1
        self.slot_freed()
        self.engine.drops.append(attempt)
        self.engine.fail(self, attempt.root, error)


class RouterNode(Routing, FunctionNode):
    """A router that is a plain function."""

    __slots__ = ("paths",)

    def start(
        self,
        root: Root | None = None,
        hand: list[Any] | None = None,
        attempt: Attempt | None = None,  # noqa: ARG002 - `FunctionNode.attempt` does without this method.
    ) -> Node:
        # A router passes on the item itself, which a function's stage releases when the op has returned.
        return OpNode.start(self, root, hand)


class AsyncRouterNode(Routing, AsyncNode):
    """A router that is a coroutine function; the event loop's thread runs it."""

    __slots__ = ("paths",)


class _Share(Group):
    """The origin of one path's part of a batch.

    It is consumed when all that descends from it has arrived at the merge or is gone. So paths stay in step whatever
    their ops drop, fail or multiply.
    """

    observed = True

    __slots__ = ("lost", "merge", "values")

    def __init__(self, batch: Group, merge: BatchMergeNode) -> None:
        super().__init__([batch], 1)
        self.merge = merge
        # Some of it was under way in a path that was given up, so the batch is never complete.
        self.lost = False
        # The elements that have arrived.
        self.values: list[Any] = []

    def add(self, values: Iterable[Any]) -> None:
        self.values += values

    def lose(self) -> None:
        """Note that items that are still under way will not come."""
        self.lost = self.pending > 0

    def consumed(self) -> None:
        self.merge.look_again()

    def take(self) -> list[Any]:
        """Return the elements that have arrived, and forget them: the lineage may know the origin for long."""
        values, self.values = self.values, []
        return values


class _BatchRouting(Routing):
    """The common part of both kinds of router that split batches."""

    __slots__ = ()

    merge: BatchMergeNode

    def paths_have_room(self) -> bool:
        # Looking ahead of a full path would not help: a batch is complete when all paths are done with it.
        return all(path.input.has_place() for path in self.paths) and self.merge.has_place_for_batch()

    def finish(self, attempt: Attempt, value: Any) -> None:
        """Send each path its share, be it empty. Called with the lock held."""
        if type(value) is CoroutineType and not (self.cancelled or self.engine.stopping):
            self.await_results(attempt, value)
            return
        if self.cancelled or self.engine.stopping:
            self.engine.drops.append(value)
            self.slot_freed()
            return
        self.counters.completed += 1
        self.counters.emitted += 1
        # Besides its shares, the merged batch will descend from it.
        batch = self.engine.lineage.split(attempt.root, len(self.paths) + 1)
        shares = self.merge.begin_batch(batch)
        budget = self.engine.budget
        if budget is not None:
            budget.forget(attempt.root)
        for path, share, items in zip(self.paths, shares, value, strict=True):
            if budget is not None:
                budget.note(path.input, share, items)
            path.input.put((share, items))
            self.engine.arrived(path)
        self.slot_freed()

    def give_up_work(self) -> bool:
        if not super().give_up_work():
            return False
        self.merge.paths_given_up()
        return True

    def pass_mark(self) -> None:
        """Tell every path, and the merge, that an epoch ends. Called with the lock held."""
        super().pass_mark()
        self.merge.end_epoch()


class BatchRouterNode(_BatchRouting, RouterNode):
    """A router of batches that is a plain function."""

    __slots__ = ("merge",)


class AsyncBatchRouterNode(_BatchRouting, AsyncRouterNode):
    """A router of batches that is a coroutine function."""

    __slots__ = ("merge",)


def _split(name: str, batch: Any, indices: Any, paths: int) -> list[list[Any]]:
    items = list(batch)
    try:
        indices = iter(indices)
    except TypeError as error:
        raise TypeError(
            f"The router of {name!r} must return one index for each element, got {show(indices)}."
        ) from error
    indices = list(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"The router of {name!r} must return one index for each of the {len(items)} elements, got {len(indices)}."
        )
    shares: list[list[Any]] = [[] for _ in range(paths)]
    for item, index in zip(items, indices, strict=True):
        if not 0 <= index < paths:
            raise IndexError(f"The router of {name!r} must return indices 0 to {paths - 1}, got {index!r}.")
        shares[index].append(item)
    return shares


class BatchMergeNode(MergeNode):
    """Puts the shares of each batch together in the order of the paths, and the batches in the order of the fork."""

    __slots__ = ("batches", "noted", "paths", "router")

    # It may have to iterate over the objects that a path passed on.
    on_workers = True

    router: Routing

    def __init__(self, engine: Engine, name: str, branches: int) -> None:
        super().__init__(engine, name, branches)
        # The stages of each path, once they were asked for.
        self.paths: list[list[Node]] = []
        # The batches that are under way, oldest first, with their shares.
        # None stands between two epochs.
        self.batches: deque[tuple[Group, list[_Share]] | None] = deque()
        # It counts as waiting, though nothing lies in its queues.
        self.noted = False

    def splits(self, router: Routing) -> None:
        self.router = router

    def begin_batch(self, batch: Group) -> list[_Share]:
        shares = [_Share(batch, self) for _ in range(self.branches)]
        self.batches.append((batch, shares))
        return shares

    def end_epoch(self) -> None:
        self.batches.append(None)

    def look_again(self) -> None:
        """Called with the lock held when a share was consumed, which may complete a batch."""
        if not self.noted and not self.cancelled:
            self.noted = True
            self.engine.add_turns()

    def has_place_for_batch(self) -> bool:
        """Return whether one more batch may be under way: not if it could only wait for an earlier one.

        An op that takes long would otherwise have all later batches wait here that overtake its share.
        """
        return len(self.batches) < max(map(_capacity, self._path_stages()))

    def _path_stages(self) -> list[list[Node]]:
        if not self.paths:
            self.paths = [_stages_between(self.router, end) for end in self.feeders]
        return self.paths

    def ready(self) -> bool:
        if self.cancelled or self.running:
            return False
        if self._complete_head() is not None or self._may_pass_mark():
            return self.has_room(0)
        return self._next_branch() is not None or self._head_is_lost()

    def turn(self) -> None:  # noqa: C901 - one step after the other.
        # While the oldest batch finds no room the others wait in the paths, which bounds what is gathered here.
        while True:
            if (head := self._complete_head()) is not None:
                if not self.has_room(0):
                    break
                self.batches.popleft()
                self._put_together(*head)
                self.engine.made_room(self.router)
            elif (index := self._next_branch()) is not None:
                self.following = (index + 1) % self.branches
                root, values = self._pop(index)
                # These run no user code.
                if type(values) is not list and type(values) is not tuple:
                    values = self._list(index, root, values)
                    if self.cancelled or self.engine.stopping:
                        return
                self._share_of(root).add(values)
                if self.engine.budget is not None:
                    self.engine.budget.move((root,), self._share_of(root).parents[0])
                self.engine.lineage.drop(root)
            else:
                break
        if self.noted and self._complete_head() is None:
            self.noted = False
            self.engine.remove_turns()
        if self._may_pass_mark() and self.has_room(0):
            self.batches.popleft()
            self._end_epoch()
            self.engine.made_room(self.router)
        elif self._next_branch() is None and self._head_is_lost():
            # The others are after it.
            self.engine.cut_off(self)

    def _list(self, index: int, root: Root, values: Any) -> list[Any]:
        """List the objects that a path passed on. Called with the lock held, which it releases in the meantime."""
        engine = self.engine
        # No other thread takes a turn until then: a path's results keep their order.
        self.running += 1
        engine.release_to_user()
        listed: list[Any] = []
        failure: BaseException | None = None
        try:
            try:
                iterator = iter(() if engine.stopping else values)
            except TypeError as error:
                raise TypeError(
                    f"Path {index} of {self.router.name!r} must pass on lists, as its router splits batches, got "
                    f"{show(values)}."
                ) from error
            listed += iterator
        except BaseException as error:  # noqa: BLE001 - it becomes the pipeline's failure.
            failure = error
        engine.lock.acquire()
        self.running -= 1
        engine.drops.append(values)
        if failure is not None:
            self.counters.failed += 1
            engine.fail(self, root, failure)
        return listed

    def _share_of(self, root: Root) -> _Share:
        while not (isinstance(root, _Share) and root.merge is self):
            assert isinstance(root, Group)
            # An item made of several batches counts for the first of them.
            root = root.parents[0]
        return root

    def _complete_head(self) -> tuple[Group, list[_Share]] | None:
        head = self.batches[0] if self.batches else None
        return None if head is None or any(share.pending or share.lost for share in head[1]) else head

    def _head_is_lost(self) -> bool:
        """Return whether the oldest batch misses a share that never comes, since its path was given up."""
        if not self.engine.failures or not self.batches or self.batches[0] is None:
            return False
        return any(share.lost for share in self.batches[0][1])

    def paths_given_up(self) -> None:
        """Called with the lock held when stages of a path were given up: items under way there are lost."""
        for index, path in enumerate(self._path_stages()):
            if any(node.cancelled for node in path):
                for batch in self.batches:
                    if batch is not None:
                        batch[1][index].lose()

    def _may_pass_mark(self) -> bool:
        return bool(self.batches) and self.batches[0] is None and self._at_barrier()

    def _put_together(self, batch: Group, shares: list[_Share]) -> None:
        self.counters.completed += 1
        values = [value for share in shares for value in share.take()]
        if values:
            self.counters.emitted += 1
            self.engine.emit(self, (batch, values))
        else:
            self.engine.lineage.drop(batch)

    def drained(self) -> bool:
        if self.running or not super().drained() or self._complete_head() is not None:
            return False
        # After a failure some miss a share that never comes.
        return not self.batches or bool(self.engine.failures)

    def end_input(self) -> bool:
        # The remaining batches miss a share, because its path was cancelled.
        self.engine.drops.extend(self._take_batches())
        return True

    def discard(self) -> list[Any]:
        return [*super().discard(), *self._take_batches()]

    def _take_batches(self) -> list[Any]:
        taken = [share.take() for entry in self.batches if entry is not None for share in entry[1]]
        self.batches.clear()
        return taken


def _stages_between(router: Node, end: Node | Source) -> list[Node]:
    found: list[Node] = []
    pending = [end]
    while pending:
        node = pending.pop()
        if isinstance(node, Node) and node is not router and node not in found:
            found.append(node)
            pending += node.feeders
    return found


def _capacity(path: list[Node]) -> float:
    """Return how many batches a path can be at work on."""
    places = CAPACITY
    for node in path:
        if isinstance(node, GatheringNode):
            # It may need any number of batches before it passes the first one on.
            return inf
        places += node.input.capacity + node.concurrency
        if isinstance(node, OpNode) and node.order is not None:
            places += AHEAD
    return places


def make_batch_router(
    engine: Engine, name: str, router: Callable[[Any], Any], merge: BatchMergeNode, *, on_loop: bool
) -> Routing:
    """Return the node that calls ``router(batch)``, which says for each element which path it takes."""

    async def split_later(batch: Any, indices: Awaitable[Any]) -> list[list[Any]]:
        return _split(name, batch, await indices, merge.branches)

    def split(batch: Any) -> list[list[Any]] | Coroutine[Any, Any, list[list[Any]]]:
        indices = router(batch)
        return split_later(batch, indices) if isawaitable(indices) else _split(name, batch, indices, merge.branches)

    kind: type[AsyncBatchRouterNode | BatchRouterNode] = AsyncBatchRouterNode if on_loop else BatchRouterNode
    made = kind(engine, name, split)
    made.merge = merge
    merge.splits(made)
    return made
