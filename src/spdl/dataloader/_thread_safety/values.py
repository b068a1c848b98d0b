"""What an expression of the code may be, and a look into the objects that outlive the loading of an item."""

from __future__ import annotations

import array
import ast
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import mmap
import re
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from gc import get_referents
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from spdl.dataloader._thread_safety.functions import Scope


class Unproven(Exception):  # noqa: N818 - what was found, not an error.
    """Raised if it cannot be proven that threads may share the dataset, for what reason and where in the code."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.place = ""

    def lies_at(self, place: str) -> None:
        """Say where, unless that is known more closely."""
        self.place = self.place or place


class Thing:
    """One of the things that a value may be. Numbers, texts and other values that never change are not things."""


Value = frozenset[Thing]

# Three names for no thing at all, each for what the code means by it. Numbers, texts and whatever else never changes.
PLAIN: Value = frozenset()

# Something missing: an attribute that may be set later or is asked for in vain, or an argument that is not given.
ABSENT: Value = frozenset()

# The value of a variable, or of a call, as long as nothing was found.
UNASSIGNED: Value = frozenset()

# The code that makes all errors that are raised.
RAISED = ast.Raise()


@dataclass(frozen=True, eq=False)
class Held(Thing):
    """Objects of one class that outlive the call: whatever the dataset, a function or a module holds."""

    path: str
    kind: type
    objects: Sequence[Any] = field(repr=False)


@dataclass(eq=False)
class Made(Thing):
    """An object that the call makes.

    Attributes:
        kind: Its class, if it is one of Python code.
        contents: The other things that it may hold. It grows during the search.
        parts: The things that it may hold at each place, if it is a tuple whose places are known.
    """

    kind: type | None = None
    contents: set[Thing] = field(default_factory=set)
    parts: list[Value] | None = None

    def fill(self, contents: Value) -> bool:
        """Note what it may hold as well, and return whether that is new."""
        new = contents - self.contents
        self.contents |= new
        return bool(new)

    def put(self, parts: list[Value]) -> bool:
        before = self.parts
        self.parts = [old | new for old, new in zip(self.parts or [UNASSIGNED] * len(parts), parts, strict=True)]
        return self.parts != before


@dataclass(eq=False)
class Local(Thing):
    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    defaults: list[Value]

    def add_defaults(self, defaults: list[Value]) -> bool:
        before = self.defaults
        self.defaults = [old | new for old, new in zip(before, defaults, strict=True)]
        return self.defaults != before


@dataclass(frozen=True)
class BoundMethod(Thing):
    """A function of a class, with the object whose method it is."""

    function: Thing
    receiver: Thing


@dataclass(frozen=True)
class NamedMethod(Thing):
    """A method of a class that is not of Python code."""

    receiver: Thing
    name: str


@dataclass(frozen=True)
class Super(Thing):
    """What `super()` returns."""

    kind: type
    receiver: Thing


@dataclass(frozen=True)
class Args:
    """The arguments of a call.

    Attributes:
        others: The contents of starred arguments, or None if there are none.
        unnamed: Whether there may be further keywords, from a dict.
    """

    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    others: Value | None = None
    unnamed: bool = False

    def all(self) -> Value:
        return PLAIN.union(*self.positional, *(value for _, value in self.keywords), self.others or ABSENT)

    def after(self, *first: Value) -> Args:
        return Args((*first, *self.positional), self.keywords, self.others, self.unnamed)


# Values that never change.
_PLAIN = {
    *(int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range),
    *(dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, uuid.UUID),
    *(decimal.Decimal, fractions.Fraction, re.Pattern, re.Match, types.GenericAlias, types.UnionType, types.CodeType),
}
_WITH_ZONES = {dt.datetime, dt.time}
_PLAIN_BASES = (np.generic, np.dtype, PurePath)
_PLAIN_NAMES = {
    *("torch.dtype", "torch.device", "torch.layout", "torch.memory_format", "torch.Size", "_struct.Struct"),
}
_PLAIN_OF_PYARROW = ("Array", "Scalar", "Type", "Table", "RecordBatch", "Schema", "Field")

CONTAINERS = (list, tuple, set, frozenset, dict, OrderedDict, Counter, defaultdict, deque, types.MappingProxyType)

MAPPINGS = (dict, types.MappingProxyType)

# Arrays are read by index without moving a position. They are listed by name: nothing is imported to look.
ARRAYS = {
    *("numpy.ndarray", "numpy.memmap", "torch.Tensor", "torch.nn.parameter.Parameter"),
    *("array.array", "builtins.bytearray", "builtins.memoryview", "mmap.mmap"),
}

_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.ModuleType)


class _NamedPlaces(NamedTuple):
    first: int


# Slots, and the fields of named tuples.
FIELDS = (types.MemberDescriptorType, type(vars(_NamedPlaces)["first"]))

# How many objects are looked at, in less than a second.
_MOST_OBJECTS = 4_000_000
_DEEPEST = 40


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def is_array(kind: type) -> bool:
    return full_name(kind) in ARRAYS or kind in {array.array, mmap.mmap}


def is_of_python(kind: type) -> bool:
    """Return whether Python code defines all that objects of the class do, beside what containers do."""
    for base in kind.__mro__:
        if base is object or base in CONTAINERS or base.__module__ in {"typing", "abc", "collections.abc"}:
            continue
        if not base.__flags__ & (1 << 9) or _has_native_parts(base):
            return False
    return True


def has_code(thing: Thing) -> bool:
    kind = getattr(thing, "kind", None)
    return kind is not None and kind not in CONTAINERS and is_of_python(kind)


def _has_native_parts(kind: type) -> bool:
    for name, it in vars(kind).items():
        if isinstance(it, (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)):
            return True
        if isinstance(it, types.GetSetDescriptorType) and name not in {"__dict__", "__weakref__"}:
            return True
        if isinstance(it, types.BuiltinFunctionType) and name == "__new__":
            return True
    return False


class Objects:
    """Groups objects by class, and reads their elements and attributes without running their code."""

    def __init__(self) -> None:
        self._seen = 0
        # Equal questions get the same answer, not an equal one.
        self._answers: dict[tuple[Held, str], Value] = {}
        self._single: dict[int, Held] = {}

    def value_of(self, objects: Sequence[Any], path: str) -> Value:
        return self._value_of_parts([objects], path)

    def _value_of_parts(self, parts: Sequence[Collection[Any]], path: str) -> Value:
        self._seen += sum(map(len, parts))
        if self._seen > _MOST_OBJECTS:
            raise Unproven(f"`{path}` has more objects than are looked at")
        all_kinds = set(map(type, chain.from_iterable(parts)))
        if not all_kinds.isdisjoint(_WITH_ZONES) and any(map(_has_zone_of_python, chain.from_iterable(parts))):
            raise Unproven(f"`{path}` has a time zone of Python code, which is not looked at")
        kinds = {kind for kind in all_kinds if not _is_plain(kind)}
        if not kinds:
            return PLAIN
        if path.count(".") + path.count("[") > _DEEPEST:
            raise Unproven(f"`{path}` lies too deep to look at")
        objects = list(chain.from_iterable(parts))
        found = set[Thing]()
        for kind in kinds:
            alike = objects if len(all_kinds) == 1 else [it for it in objects if type(it) is kind]
            first = alike[0]
            if all(it is first for it in alike):
                found.add(self._single.setdefault(id(first), Held(path, kind, [first])))
            else:
                found.add(Held(path, kind, alike))
        return frozenset(found)

    def shared(self) -> set[int]:
        seen = [*self._single.values(), *(it for value in self._answers.values() for it in value)]
        return {
            id(it)
            for held in seen
            if isinstance(held, Held) and not issubclass(held.kind, (tuple, frozenset, type, *_CODE))
            for it in held.objects
        }

    def keys_and_values(self, held: Held) -> list[Value]:
        if (held, "keys") not in self._answers:
            keys, values = [it.keys() for it in held.objects], [it.values() for it in held.objects]
            self._answers[held, "keys"] = self._value_of_parts(keys, f"{held.path}.keys()")
            self._answers[held, "values"] = self._value_of_parts(values, f"{held.path}[...]")
        return [self._answers[held, "keys"], self._answers[held, "values"]]

    def elements(self, held: Held) -> Value:
        """Return what containers or arrays hold. For a dict, return its keys and values."""
        path, objects = f"{held.path}[...]", held.objects
        if (held, "[") in self._answers:
            return self._answers[held, "["]
        if issubclass(held.kind, MAPPINGS):
            self._answers[held, "["] = PLAIN.union(*self.keys_and_values(held))
            return self._answers[held, "["]
        if issubclass(held.kind, np.ndarray):
            if not any(it.dtype.hasobject for it in objects):
                return PLAIN
            parts: Sequence[Collection[Any]] = [it.ravel().tolist() for it in objects]
        elif held.kind in CONTAINERS or issubclass(held.kind, (list, tuple, set, frozenset, deque)):
            if isinstance(inspect.getattr_static(held.kind, "__iter__", None), types.FunctionType):
                raise Unproven(f"`{held.kind.__name__}.__iter__` is not looked at")
            parts = objects
        else:
            return PLAIN
        self._answers[held, "["] = found = self._value_of_parts(parts, path)
        return found

    def instance_attribute(self, held: Held, name: str) -> Value | None:
        """Return what the objects themselves have under the name. None if it is not in all of them."""
        if (held, name) in self._answers:
            return self._answers[held, name]
        values, everywhere = [], True
        slot = inspect.getattr_static(held.kind, name, None)
        for it in held.objects:
            own = vars(it) if hasattr(it, "__dict__") else {}
            if name in own:
                values.append(own[name])
            elif isinstance(slot, FIELDS) and hasattr(it, name):
                values.append(getattr(it, name))
            else:
                everywhere = False
        if not values:
            return None
        found = self.value_of(values, f"{held.path}.{name}")
        if not everywhere:
            found |= self.class_attribute_value(held.kind, name) or ABSENT
        self._answers[held, name] = found
        return found

    def class_attribute_value(self, kind: type, name: str) -> Value | None:
        """Return what a class and its bases have under the name, unless it is a descriptor."""
        missing = object()
        found = inspect.getattr_static(kind, name, missing)
        if isinstance(found, property) and type(found) is not property:
            raise Unproven(f"`{kind.__name__}.{name}` is a {full_name(type(found))}, whose code is not looked at")
        if found is missing or isinstance(found, (types.FunctionType, property, staticmethod, classmethod)):
            return None
        if isinstance(found, functools.cached_property):
            raise Unproven(f"`{kind.__name__}.{name}` is kept once it was computed, and threads share it")
        if isinstance(found, types.MemberDescriptorType):
            return ABSENT
        if hasattr(type(found), "__get__") and not isinstance(found, type):
            raise Unproven(f"`{kind.__name__}.{name}` is a {full_name(type(found))}, whose code is not looked at")
        return self.value_of([found], f"{kind.__name__}.{name}")


def reachable(objects: Iterable[Any]) -> Iterator[Any]:
    """Yield objects and all that they hold, except what belongs to classes and modules."""
    seen, todo = set[int](), list(objects)
    while todo:
        it = todo.pop()
        if id(it) in seen or isinstance(it, (type, types.ModuleType)):
            continue
        seen.add(id(it))
        yield it
        # A function's names belong to its module.
        todo += [*(it.__closure__ or ()), it.__defaults__] if isinstance(it, types.FunctionType) else get_referents(it)


def _has_zone_of_python(it: object) -> bool:
    zone = it.tzinfo if isinstance(it, (dt.datetime, dt.time)) else None
    return isinstance(getattr(type(zone), "utcoffset", None), types.FunctionType)


def _is_plain_enum(kind: type[enum.Enum]) -> bool:
    """Return whether the members never change, and have no user code."""
    parts = [it for base in kind.__mro__ for it in vars(base).values()]
    functions = [getattr(it, "__func__", it.fget if type(it) is property else it) for it in parts]
    own = any(isinstance(it, types.FunctionType) and it.__code__.co_filename != enum.__file__ for it in functions)
    return not own and all(_is_plain(type(it.value)) for it in kind)


def _is_plain(kind: type) -> bool:
    if kind in _PLAIN or full_name(kind) in _PLAIN_NAMES:
        return True
    if issubclass(kind, enum.Enum):
        return _is_plain_enum(kind)
    if issubclass(kind, _PLAIN_BASES):
        return kind.__module__.startswith(("pathlib", "numpy")) and not issubclass(kind, np.void)
    return kind.__module__ == "pyarrow.lib" and kind.__name__.endswith(_PLAIN_OF_PYARROW)
