"""Items that aggregators keep past a result or have left over, and how batches of an earlier run are made again."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from logging import Logger, LoggerAdapter
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple, NoReturn

from spdl._check import show
from spdl.pipeline._declare.records import Aggregator
from spdl.pipeline._state.origins import Form, Root
from spdl.pipeline._state.partial import Batch, Record, Restored

_NUMBERS = (bool, int, float, complex)
_TEXTS = (str, bytes)
_CONTAINERS = (list, tuple, set, frozenset, deque)

# Nothing is looked for further in.
_DEEPEST = 4
_MOST_PARTS = 1_000

# Types of objects that cannot change in place, or that hold no items.
_FIXED = (type, ModuleType, BuiltinFunctionType, FunctionType, Enum, PurePath, Logger, LoggerAdapter)
_FIXED_MODULES = ("re", "typing", "numpy.dtypes")
_NUMPY_FUNCTIONS = ("ufunc", "_ArrayFunctionDispatcher")

_UNKNOWN = ("unknown",)


def has_leftover(op: object) -> bool:
    """Return whether an aggregator says what it has left over, and takes it back."""
    return all(callable(getattr(type(op), name, None)) for name in ("state_dict", "load_state_dict"))


def _remedy(op: object) -> str:
    """Return what the author of an aggregator can do, so that its pipeline can be resumed."""
    return (
        f"G{_two_methods(op)[1:]} If it only puts whole items into lists, `held_back()` will do: it returns the items "
        "that it keeps, or ()."
    )


def _two_methods(op: object) -> str:
    return (
        f"give {type(op).__name__} the methods `state_dict()`, which returns its leftover after the last result as "
        "JSON or arrays, and `load_state_dict(state)`."
    )


class HiddenStateCheck:
    """Checks after each result whether an aggregator holds what it did not hold before the first item.

    Without ``held_back``, all its attributes and its class's must be known. Of one that has it, only what is not whole
    items is looked for. ``found`` is what it seems to keep, as a part of a sentence; None as long as nothing was seen.
    """

    def __init__(self, op: Aggregator[Any, Any], *, tells: bool) -> None:
        self.found: str | None = None
        self._op: Aggregator[Any, Any] | None = op
        self._tells = tells
        # Each variable's frozen form, and its value, which keeps the value's identity from being used again.
        self._before: dict[str, tuple[Any, Any]] | None = None

    def begin(self) -> None:
        if self._before is None:
            self._before = {name: (_frozen(value), value) for name, value in _variables(self._op)}

    def let_go(self) -> list[Any]:
        dropped = [self._op, self._before]
        self._op = self._before = None
        return dropped

    def note_unproven(self, what: str) -> None:
        """Note what does not show that each item comes once, as a part of a sentence."""
        if self.found is None:
            self.found = (
                f"cannot be resumed exactly: it keeps items past a result, and {what}. It must return lists of the "
                "very objects that it was given, each in one list. What is made of them is made in a stage behind it, "
                f"and a rest is dropped by `drop_last=True`. Or {_two_methods(self._op)}"
            )

    def look(self, held: Iterable[object]) -> None:
        """Look at the attributes after a result, past which it says it keeps these items."""
        if self.found is not None:
            return
        before = self._before or {}
        known = set(map(id, held))
        for name, value in _variables(self._op):
            if _is_nothing(value) or (
                (now := _frozen(value)) != _UNKNOWN and name in before and now == before[name][0]
            ):
                continue
            if self._tells and (_is_whole(value, known) or not _is_content(value)):
                continue
            self.found = (
                f"cannot be resumed exactly: after a result, its `{name}` may hold a part of its items, which would "
                f"not be in the state. {_remedy(self._op)}"
            )
            return


def _variables(op: object) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of an aggregator's attributes, and of its class's."""
    yield from getattr(op, "__dict__", {}).items()
    for kind in type(op).__mro__:
        if kind.__module__.partition(".")[0] in ("spdl", "builtins", "typing", "abc"):
            continue
        for name, value in list(vars(kind).items()):
            if isinstance(value, MemberDescriptorType):
                yield name, getattr(op, name, None)
            elif not name.startswith(("__", "_abc_")) and not hasattr(type(value), "__get__"):
                yield f"{kind.__name__}.{name}", value


def _is_nothing(value: Any, depth: int = 0) -> bool:
    """Return whether a value can hold no item: None, and containers without anything. A zero could be an item."""
    if value is None:
        return True
    if isinstance(value, bytearray):
        return not value
    if (size := _size_of_array(value)) is not None:
        return not size
    if depth > _DEEPEST or (isinstance(value, (*_CONTAINERS, dict)) and len(value) > _MOST_PARTS):
        return False
    if isinstance(value, dict):
        return all(_is_nothing(part, depth + 1) for part in value.values())
    return isinstance(value, _CONTAINERS) and all(_is_nothing(part, depth + 1) for part in value)


def _frozen(value: Any, depth: int = 0) -> Any:
    """Return what tells a value from what it was before; `_UNKNOWN` if that cannot be told."""
    if value is None or isinstance(value, (*_NUMBERS, *_TEXTS)):
        return type(value), value
    if _is_fixed(value):
        # It cannot change, and its owner keeps it alive, so no other object can get its identity.
        return type(value), id(value)
    if type(value) is partial:
        return _frozen([value.func, value.args, value.keywords], depth + 1)
    if isinstance(value, (bytearray, *_CONTAINERS, dict)) and depth < _DEEPEST and len(value) <= _MOST_PARTS:
        parts = [*value.items()] if isinstance(value, dict) else [*value]
        frozen = [_frozen(part, depth + 1) for part in parts]
        return _UNKNOWN if _UNKNOWN in frozen else (type(value), frozen)
    if (size := _size_of_array(value)) is not None and size <= _MOST_PARTS:
        return type(value), str(value.dtype), tuple(value.shape), value.tolist()
    return _UNKNOWN


def _is_fixed(value: Any) -> bool:
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, (*_CONTAINERS, dict, bytearray)):
        # A method of a container.
        return False
    kind = type(value)
    return (
        isinstance(value, _FIXED)
        or kind.__module__ in _FIXED_MODULES
        or (kind.__module__ == "numpy" and kind.__name__ in _NUMPY_FUNCTIONS)
    )


def _is_whole(value: Any, known: set[int], depth: int = 0) -> bool:
    """Return whether a value is, or has somewhere, one of the items that the aggregator says it keeps."""
    if id(value) in known:
        return True
    if depth > _DEEPEST or not isinstance(value, (*_CONTAINERS, dict)):
        return False
    parts = list(value.values()) if isinstance(value, Mapping) else list(value)
    rest = [part for part in parts if not _is_nothing(part)]
    return any(_is_whole(part, known, depth + 1) for part in rest)


def _is_content(value: Any, depth: int = 0) -> bool:
    """Return whether a value is of a kind that parts of items are of: texts, arrays, and containers of anything."""
    return depth <= _DEEPEST and (
        isinstance(value, (*_TEXTS, bytearray, *_CONTAINERS, dict)) or _size_of_array(value) is not None
    )


def _size_of_array(value: Any) -> int | None:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return int(value.size)
    if torch is not None and isinstance(value, torch.Tensor):
        return int(value.numel())
    return None


class Kept:
    """The items in hand, and which of them the aggregator has said it keeps.

    Items are recognized by their identity: a list that the user compares in his own way is still that list. ``form`` is
    how the last result is made of the very items that left with it; None if it is not seen to be.
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._held: list[Any] = []
        self.form: Form | None = None
        # The items in the last result, in its order.
        self._leaves: list[Any] = []
        # Whether items were left over by a result of this epoch. Then their number and order decide what comes next.
        self._holds = False
        # The number of the first epoch, and how many have ended.
        self._counted_from = self._ends = 0
        # The last epoch in which it had kept items past a result, here and in an earlier run.
        self._last: int | None = None
        self._resumed: int | None = None

    def begin(self, epoch: int) -> None:
        self._counted_from = epoch

    def resume(self, last: int | None) -> None:
        self._last = self._resumed = last

    def last_epoch(self) -> int | None:
        return self._last

    def add(self, item: Any) -> None:
        self._items.append(item)

    def take_back(self) -> Any:
        """Return the latest item, which the aggregator was not given after all."""
        return self._items.pop()

    def note(self, result: Any, held: Iterable[Any] | None) -> bool:
        """Note a result, and what the aggregator keeps past it. Runs user code.

        Return whether an aggregator that gets the items once more loses and repeats none: it has kept nothing in this
        epoch, or the result is made of exactly the items that it no longer keeps.
        """
        self._held = [] if held is None else list(held)
        missing = Counter(map(id, self._held)) - Counter(map(id, self._items))
        if missing:
            raise ValueError(
                "The aggregator's `held_back()` returned an object that it was not given, or one twice: it must return "
                "the very objects that `accumulate` received and that no result has contained yet."
            )
        self._look_at(result)
        self._holds = self._holds or bool(self._held)
        return self.form is not None or not self._holds

    def note_flushed(self, result: Any) -> bool:
        """Note what the aggregator has flushed. Return as `note` does."""
        self._held = []
        self._look_at(result)
        return self.form is not None or not (self._items and (self._holds or self.is_resumed()))

    def is_resumed(self) -> bool:
        """Return whether an earlier run had kept items past a result of this epoch."""
        return self._resumed is not None and self._counted_from + self._ends <= self._resumed

    def _look_at(self, result: Any) -> None:
        passed = Counter(map(id, self._items)) - Counter(map(id, self._held))
        leaves: list[Any] = []
        whole = _gather(result, passed, leaves) and Counter(map(id, leaves)) == passed
        self._leaves = leaves if whole else []
        self.form = _form_of(result, passed) if whole else None

    def held(self) -> list[Any]:
        return self._held

    def divide(self, roots: Sequence[Root], *, flushed: bool) -> tuple[list[Root], list[Root], list[Any]]:
        """Return the roots of the items that were passed on, in the order of the result if that is made of them.

        With them, the roots of those that are kept, and what should be dropped.
        """
        held = Counter(map(id, () if flushed else self._held))
        if held:
            self._last = self._counted_from + self._ends
        passed_on: dict[int, list[Root]] = defaultdict(list)
        kept: list[Root] = []
        items: list[Any] = []
        # If an object was given several times, the latest ones are kept.
        for root, item in zip(reversed(roots), reversed(self._items), strict=True):
            if held[id(item)] > 0:
                held[id(item)] -= 1
                kept.append(root)
                items.append(item)
            else:
                passed_on[id(item)].append(root)
        order = self._leaves or self._items
        passed = [passed_on[id(item)].pop() for item in order if passed_on[id(item)]]
        dropped = [self._items, self._held, self._leaves]
        self._items, self._held, self._leaves = items[::-1], [], []
        return passed, kept[::-1], dropped

    def end_epoch(self) -> list[Any]:
        self._ends += 1
        self._holds = False
        return self.let_go()

    def let_go(self) -> list[Any]:
        dropped = [self._items, self._held, self._leaves]
        self._items, self._held, self._leaves = [], [], []
        return dropped


def _gather(value: Any, items: Counter[int], leaves: list[Any], depth: int = 0) -> bool:
    """Add the items that a result contains, in order. Return whether there is nothing else in it."""
    if id(value) in items:
        leaves.append(value)
        return True
    if depth > _DEEPEST or type(value) not in (list, tuple, dict):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return all(_gather(part, items, leaves, depth + 1) for part in parts)


def _form_of(result: Any, items: Counter[int]) -> Form:
    if id(result) in items:
        return "item"
    return "list" if type(result) is list and all(id(part) in items for part in result) else "nest"


# In the place of an array: its kind, the type of its elements, its shape and its bytes.
_ARRAY = "spdl.array"

# Nothing deeper is packed: Python's own functions for JSON stop at some more, and what contains itself has no end.
_LEVELS = 100
_LONGEST_PATH = 60

_ACCEPTED = (
    "JSON, which may have arrays of numpy and tensors in it: dicts with keys of type str, lists, tuples, texts, "
    "numbers, bools and None"
)


def pack(value: Any, stage: str) -> Any:
    """Return a copy that JSON can hold of what the ``state_dict()`` of a stage's aggregator has returned.

    Raises a TypeError if something in it is neither JSON nor an array, or would come back as something else.
    """
    return _pack(value, _ValuePlace(stage, ""), 0)


class _ValuePlace(NamedTuple):
    stage: str
    path: str

    def part(self, key: object) -> _ValuePlace:
        return self._replace(path=f"{self.path}[{show(key)}]")

    def refuse(self, value: Any, remedy: str = "") -> NoReturn:
        raise TypeError(
            f"Stage {self.stage!r}: what the aggregator's `state_dict()` returns must be {_ACCEPTED}. Got "
            f"{show(value)} of type {type(value).__name__} at `state_dict(){self.path}`.{remedy and f' {remedy}'}"
        )

    def refuse_depth(self) -> NoReturn:
        raise TypeError(
            f"Stage {self.stage!r}: what the aggregator's `state_dict()` returns has more than {_LEVELS} levels, or "
            f"contains itself, at `state_dict(){self.path[:_LONGEST_PATH]}...`. Return it flat, as a list say."
        )


def _pack(value: Any, place: _ValuePlace, depth: int) -> Any:
    if value is None or (isinstance(value, (bool, int, float, str)) and type(value).__module__ != "numpy"):
        return value
    if depth > _LEVELS:
        place.refuse_depth()
    if isinstance(value, dict) and _ARRAY not in value and all(type(key) is str for key in value):
        return {key: _pack(part, place.part(key), depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(part, place.part(number), depth + 1) for number, part in enumerate(value)]
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _pack_tensor(value, torch, place)
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _pack_array(value, numpy, place)
    return place.refuse(value)


def _pack_tensor(value: Any, torch: Any, place: _ValuePlace) -> dict[str, Any]:
    dense = value.layout is torch.strided and not (value.is_nested or value.is_quantized or value.is_meta)
    if type(value) is not torch.Tensor or not dense or value.requires_grad:
        place.refuse(value, "Only plain tensors come back unchanged: dense, with data, and detached from any graph.")
    array = value.resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    content = array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""
    return _packed("tensor", str(array.dtype).removeprefix("torch."), list(array.shape), content)


def _pack_array(value: Any, numpy: Any, place: _ValuePlace) -> dict[str, Any]:
    if value.dtype.hasobject or value.dtype.names:
        place.refuse(value, "Its elements must be numbers, bools, texts or times.")
    if isinstance(value, numpy.generic):
        return _packed("number", value.dtype.str, [], value.tobytes())
    if type(value) is not numpy.ndarray:
        place.refuse(value, "It would come back as a plain array: return what it holds as plain arrays.")
    return _packed("array", value.dtype.str, list(value.shape), value.tobytes())


def _packed(kind: str, dtype: str, shape: list[int], content: bytes) -> dict[str, Any]:
    return {_ARRAY: [kind, dtype, shape, b64encode(content).decode()]}


def unpack(packed: Any) -> Any:
    """Return what `pack` was given, with lists in the place of tuples."""
    if isinstance(packed, list):
        return [unpack(part) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if _ARRAY not in packed:
        return {key: unpack(part) for key, part in packed.items()}
    kind, dtype, shape, text = packed[_ARRAY]
    # One that can be written to.
    content = bytearray(b64decode(text))
    if kind == "tensor":
        import torch  # noqa: PLC0415 - only for those who had tensors.

        element = getattr(torch, dtype)
        return torch.frombuffer(content, dtype=element).reshape(shape) if content else torch.empty(shape, dtype=element)
    import numpy as np  # noqa: PLC0415 - as above.

    array = np.frombuffer(content, np.dtype(dtype)).reshape(shape)
    return array[()] if kind == "number" else array


class Regrouped:
    """A batch that is made again, and its items that have arrived."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._entries: dict[int, tuple[Root, Any]] = {}

    def add(self, index: int, root: Root, value: Any) -> None:
        self._entries[index] = root, value

    def complete(self) -> bool:
        return len(self._entries) == self.batch.size

    def roots(self) -> list[Root]:
        return [self._entries[index][0] for index in sorted(self._entries)]

    def values(self) -> list[Any]:
        return [self._entries[index][1] for index in sorted(self._entries)]


class Regrouping:
    """The batches that one stage makes again. Guarded by the engine's lock."""

    def __init__(self, restored: Restored) -> None:
        self._restored = restored
        self._begun: dict[Batch, Regrouped] = {}

    def take(self, record: Record | None, root: Root, value: Any) -> Regrouped | None:
        """Take an item for the batch that it belongs to, and return that; None if it belongs to none."""
        if record is None or record.member is None:
            return None
        batch, index = record.member
        found = self._begun.get(batch)
        if found is None:
            found = self._begun[batch] = Regrouped(batch)
        found.add(index, root, value)
        return found

    def begun(self) -> list[Regrouped]:
        return list(self._begun.values())

    def end(self, found: Regrouped) -> None:
        del self._begun[found.batch]
        self._restored.made_again(found.batch)

    def is_over(self) -> bool:
        return not self._restored.batches


def made_again(records: Iterable[Record | None]) -> Batch | None:
    """Return the batch of an earlier run whose members have these records, if there is one."""
    batch: Batch | None = None
    place = -1
    # Most batches have no members of this kind, and the first one shows it.
    for place, record in enumerate(records):
        member = None if record is None else record.member
        if member is None or member.place != place or member.batch is not (batch or member.batch):
            return None
        batch = member.batch
    return batch if batch is not None and place + 1 == batch.size else None


class GivenItem(NamedTuple):
    """An item that an aggregator is given; with the record of its batch if it is the first of a batch."""

    root: Root
    value: Any
    record: Record | None = None


class AggregatorRegrouping(Regrouping):
    """The batches that a user's aggregator makes again: it gets their items first, batch by batch.

    It need not make those that are known to be lists of their items. Only an empty aggregator makes the same batch of
    the same items, so while it has to make one, all others wait.
    """

    def __init__(self, restored: Restored) -> None:
        super().__init__(restored)
        # The items that belong to no such batch, and those to give to the aggregator now. None ends a batch.
        self._aside: deque[GivenItem] = deque()
        self._due: deque[GivenItem | Regrouped | None] = deque()

    def take(self, record: Record | None, root: Root, value: Any) -> Regrouped | None:
        found = super().take(record, root, value)
        if found is None:
            self._aside.append(GivenItem(root, value))
        elif found.complete():
            self._give(found)
        if all(batch.form is not None for batch in self._restored.batches):
            # None of those that are left needs the aggregator, so what came before them is passed on before them.
            self._give_aside()
        return found

    def _give(self, found: Regrouped) -> None:
        self.end(found)
        if found.batch.form is not None:
            self._due.append(found)
            return
        record: Record | None = found.batch.record
        for root, value in zip(found.roots(), found.values(), strict=True):
            self._due.append(GivenItem(root, value, record))
            record = None
        self._due.append(None)

    def _give_aside(self) -> None:
        self._due += self._aside
        self._aside.clear()

    def release(self) -> bool:
        """Make all due that is held back, as no more comes. Return whether there was anything."""
        for found in self.begun():
            self._give(found)
        self._give_aside()
        return self.is_due()

    def is_due(self) -> bool:
        return bool(self._due)

    def next_step(self) -> GivenItem | Regrouped | None:
        """Return the next item that is due, or a batch that needs no aggregator; None at the end of another batch."""
        return self._due.popleft()

    def is_over(self) -> bool:
        """Return whether nothing is held back any more, nor will be."""
        return not (self._due or self._aside or self._begun or self._restored.batches)

    def let_go(self) -> list[Any]:
        items = [*self._due, *self._aside, *(value for found in self.begun() for value in found.values())]
        self._due.clear()
        self._aside.clear()
        self._begun.clear()
        return items
