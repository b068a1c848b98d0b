"""Values of the search: everything that an expression of the code may be."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
