"""The budget of bytes: how many the items in flight keep, and who may make another one."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.channel import Channel
from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.source import Source

# That many parts of an item are looked at. A list of more numbers than that weighs nothing, and one of more arrays is
# rare.
_MOST_PARTS = 10_000


def weigh(item: Any) -> int:  # noqa: C901 - one case for each kind.
    """Return how many bytes an item keeps in its arrays, tensors, buffers and strings.

    Lists, tuples, sets, dicts and dataclasses weigh what their parts do, each counted once. All else weighs 0, unless
    it has an int named ``nbytes`` among its own attributes. It runs no user code, so it may be called with the
    engine's lock held: properties and ``__len__`` are not asked.
    """
    kind = type(item)
    if kind in _LENGTHS:
        return len(item)
    numpy: Any = sys.modules.get("numpy")
    ndarray = getattr(numpy, "ndarray", None)
    if ndarray is not None and kind is ndarray:
        return int(item.nbytes)
    torch: Any = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    total = 0
    seen: set[int] = set()
    pending = [item]
    while pending and len(seen) < _MOST_PARTS:
        part = pending.pop()
        kind = type(part)
        if kind in _WEIGHTLESS or id(part) in seen:
            continue
        seen.add(id(part))
        if kind in _LENGTHS:
            total += len(part)
        elif ndarray is not None and issubclass(kind, ndarray):
            # As the array itself says it, whatever a subclass makes of it.
            total += ndarray.nbytes.__get__(part)
        elif tensor is not None and issubclass(kind, tensor):
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - there is no other name for it.
                total += part.nbytes
        elif kind is memoryview or kind.__module__.startswith("spdl.io."):
            total += getattr(part, "nbytes", 0)
        elif issubclass(kind, array):
            total += array.buffer_info(part)[1] * part.itemsize
        else:
            pending += _parts(part, kind)
            if type(own := _attributes(part).get("nbytes")) is int:
                total += max(0, own)
    return total


_LENGTHS = frozenset([bytes, bytearray, str])
_WEIGHTLESS = frozenset([int, float, bool, complex, type(None)])


def _parts(item: Any, kind: type) -> list[Any]:
    for base, listed in _LISTED:
        if issubclass(kind, base):
            return list(listed(item))
    if "__dataclass_fields__" in vars(kind):
        fields = vars(kind)["__dataclass_fields__"]
        own = _attributes(item)
        # Those of a class with slots lie in descriptors that Python made.
        slots: list[Any] = [vars(each).get(name) for each in kind.__mro__ for name in fields if name not in own]
        made = [slot.__get__(item) for slot in slots if type(slot) is MemberDescriptorType and _is_set(slot, item)]
        return [own[name] for name in fields if name in own and name != "nbytes"] + made
    return []


def _attributes(item: Any) -> dict[str, Any]:
    try:
        own = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


def _is_set(slot: Any, item: Any) -> bool:
    try:
        slot.__get__(item)
    except AttributeError:
        return False
    return True


# Copies that are made in one step: the user may change them in the meantime.
_LISTED: tuple[tuple[type, Any], ...] = (
    (list, lambda item: list.__getitem__(item, slice(None))),
    (tuple, lambda item: tuple.__getitem__(item, slice(None))),
    (dict, lambda item: list(dict.values(item))),
    (set, lambda item: list(set().union(item))),
    (frozenset, lambda item: list(set().union(item))),
)


# The largest of that many results, or of twice as many, is what the next one is expected to weigh.
_REMEMBERED = 64


class _KnownResults:
    """The known weights of the results of one source or stage."""

    def __init__(self, number: int, maker: Node | Source) -> None:
        self.number = number
        self.maker = maker
        self.known = False
        self._now = self._before = self._count = 0

    def note(self, weight: int) -> None:
        self.known = True
        self._now = max(self._now, weight)
        self._count += 1
        if self._count == _REMEMBERED:
            self._before, self._now, self._count = self._now, 0, 0

    def expected(self) -> int:
        return max(self._now, self._before)


class Budget:
    """Weighs the items in flight, and lets a result be made only if it will fit. Guarded by the engine's lock.

    A result's weight is known only once there is one. So a part that is about to make one reserves what the largest of
    its latest results weighed; before the first, the largest of all, and one at a time. A part farther from the sink
    leaves as much as any stage after it needs for one result, so that the item nearest the sink can always continue.
    If nothing moves even so, one result is made alone, whatever it weighs.
    """

    def __init__(self, limit: int, engine: Engine) -> None:
        self.limit = limit
        self._engine = engine
        self.held = self.peak = 0
        self.waited = 0.0
        # By the root of each item.
        self._weights: dict[Any, int] = {}
        self._places: dict[Channel, _KnownResults] = {}
        self._largest = 0
        self._blocked_since = 0.0
        self._told = False
        # The consumer takes without the lock. The first of these roots, without an entry, are of items that it took.
        self._sink = engine.sink
        self._roots = engine.sink.note_roots()

    def connect(self) -> None:
        """Guard what the sources fill, and the stages whose results are new objects. Called after `Engine.connect`."""
        makers: list[Node | Source] = [
            *self._engine.sources,
            *(node for node in self._engine.nodes if node.makes_items),
        ]
        for number, maker in enumerate(makers):
            self._places[maker.output] = _KnownResults(number, maker)
            maker.output.set_guard(self)

    # ---- whether a result may be made ----

    def admits(self, channel: Channel) -> bool:
        place = self._places[channel]
        # After a failure nothing more is pulled, and what is left passes.
        if self._engine.failures or self._fits(place):
            return True
        # The consumer takes without the lock and looks at the flag afterwards, so it is set before the second look.
        self._sink.set_full(full=True)
        if not self._sink.entries and self._nothing_else_goes_on(place.maker):
            return True
        if self._fits(place):
            return True
        if not self._blocked_since:
            self._blocked_since = perf_counter()
        return False

    def _fits(self, place: _KnownResults) -> bool:
        self._note_taken()
        if not place.known and place.maker.in_ops():
            return False
        needed = self.held + self._expected(place)
        behind = 0
        for each in self._places.values():
            needed += each.maker.in_ops() * self._expected(each)
            if each.number > place.number:
                behind = max(behind, self._expected(each))
        return needed + behind <= self.limit

    def _nothing_else_goes_on(self, maker: Node | Source) -> bool:
        """Return whether only this source, or stage and those before it, has anything to do."""
        engine = self._engine
        if any(node.in_ops() for node in engine.nodes):
            return False
        later = engine.nodes
        if maker in engine.sources:
            # If no more ops may run, a worker that is between two of them continues.
            if any(source.pulling for source in engine.sources) or (engine.waiting and engine.workers.permits <= 0):
                return False
        else:
            later = later[later.index(maker) + 1 :]  # type: ignore[arg-type] # It is a node.
        return not any(_goes_on(node) for node in reversed(later))

    def _expected(self, place: _KnownResults) -> int:
        return place.expected() if place.known else self._largest

    # ---- what is held ----

    def note(self, channel: Channel, root: Any, item: Any) -> None:
        """Note an item that was made, in the place of what its root stood for before."""
        weight = weigh(item)
        place = self._places.get(channel)
        if place is not None:
            place.note(weight)
            self._largest = max(self._largest, weight)
        self._set(root, weight)
        self.freed()

    def note_nothing(self, channel: Channel) -> None:
        place = self._places.get(channel)
        if place is not None:
            place.note(0)
        self.freed()

    def note_part(self, whole: Any, root: Any, item: Any) -> None:
        """Note an item that is a part of another one, which is taken apart."""
        weight = weigh(item)
        self._set(whole, max(0, self._weights.get(whole, 0) - weight))
        self._set(root, weight)

    def move(self, roots: Iterable[Any], into: Any) -> None:
        """Note that items are held together under another root from now on."""
        self._note_taken()
        total = self._weights.get(into, 0)
        for root in roots:
            total += self._weights.get(root, 0)
            self._set(root, 0)
        self._set(into, total)
        self.freed()

    def forget(self, root: Any) -> None:
        self._set(root, 0)
        self.freed()

    def _set(self, root: Any, weight: int) -> None:
        before = self._weights.pop(root, 0)
        if weight:
            self._weights[root] = weight
        if weight == before:
            return
        self.held += weight - before
        if self.held > self.peak:
            self._note_taken()
            self.peak = max(self.peak, self.held)
            if self.held > self.limit and not self._told:
                self._told = True
                self._engine.reporter.warn(
                    f"The items in the pipeline keep {self.held:,} bytes, more than the {self.limit:,} that "
                    "`max_bytes` allows: one result was larger than those before it, or one item, with what is "
                    "gathered for it, does not fit alone."
                )

    def _note_taken(self) -> None:
        while len(self._roots) > len(self._sink.entries):
            self._set(self._roots.popleft(), 0)

    def freed(self) -> None:
        """Make all threads look that found no bytes left."""
        if self._blocked_since:
            self.waited += perf_counter() - self._blocked_since
            self._blocked_since = 0.0
            if self._engine.event_loop is not None:
                self._engine.event_loop.wake()
            for source in self._engine.sources:
                self._engine.made_room(source)

    def bytes_now(self) -> int:
        """Return how many bytes are held, without what the consumer has taken. Needs no lock."""
        taken = max(0, len(self._roots) - len(self._sink.entries))
        while True:
            # Without a GIL, the copy takes several steps, and complains of an entry that comes in between.
            with suppress(RuntimeError):
                roots = {*islice(self._roots.copy(), taken)}
                break
        return max(0, self.held - sum(self._weights.get(root, 0) for root in roots))

    def seconds_waited(self, now: float) -> float:
        """Return for how long something has waited for bytes, until now. Needs no lock."""
        since = self._blocked_since
        return self.waited + (max(0.0, now - since) if since else 0.0)


def _goes_on(node: Node) -> bool:
    for_workers = node.for_workers()
    return (for_workers is not None and for_workers.ready()) or node.goes_on_elsewhere()
