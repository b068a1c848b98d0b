"""Values of the search: everything that an expression of the code may be."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scope import Scope

__all__ = [
    "ABSENT",
    "PLAIN",
    "RAISED",
    "UNASSIGNED",
    "Args",
    "Bound",
    "Held",
    "Local",
    "Made",
    "Named",
    "Super",
    "Thing",
    "Unproven",
    "Value",
]


class Unproven(Exception):  # noqa: N818 - what was found, not an error.
    """Raised if it cannot be proven that threads may share the dataset.

    Attributes:
        what: What speaks against it, in words.
        place: The file, line and code.
    """

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.place = place

    def lies_at(self, place: str) -> None:
        """Say where, unless that is known more closely."""
        self.place = self.place or place


class Thing:
    """One of the things that a value may be. Numbers, texts and other values that never change are none."""


Value = frozenset[Thing]

# Three names for no thing at all, each for what the code means by it. Numbers, texts and whatever else never changes.
PLAIN: Value = frozenset()

# What is not there: an attribute that may be set later or is asked for in vain, or an argument that is not given.
ABSENT: Value = frozenset()

# What a variable is, or a call returns, as long as nothing was found.
UNASSIGNED: Value = frozenset()

# The code that makes all errors that are raised.
RAISED = ast.Raise()


@dataclass(frozen=True, eq=False)
class Held(Thing):
    """Objects that outlive the call: whatever the dataset, a function or a module holds.

    Attributes:
        path: How the search came to them.
        kind: Their class.
        objects: All objects of the class that it may be.
    """

    path: str
    kind: type
    objects: Sequence[Any] = field(repr=False)


@dataclass(eq=False)
class Made(Thing):
    """An object that the call makes.

    Attributes:
        kind: Its class, if it is one of Python code.
        contents: What it may hold of other things. It grows during the search.
        parts: What it may hold at each place, if it is a tuple of which that is known.
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
        """Note what it may hold at each place as well, and return whether that is new."""
        before = self.parts
        self.parts = [old | new for old, new in zip(self.parts or [UNASSIGNED] * len(parts), parts, strict=True)]
        return self.parts != before


@dataclass(eq=False)
class Local(Thing):
    """A function that the call defines, and the scope around it."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    defaults: list[Value]

    def add_defaults(self, defaults: list[Value]) -> bool:
        """Note further values of the defaults, and return whether there are any."""
        before = self.defaults
        self.defaults = [old | new for old, new in zip(before, defaults, strict=True)]
        return self.defaults != before


@dataclass(frozen=True)
class Bound(Thing):
    """A function of a class, with the object whose method it is."""

    function: Thing
    receiver: Thing


@dataclass(frozen=True)
class Named(Thing):
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
        positional: One value for each.
        keywords: By name.
        others: What is in starred arguments, or None if there are none.
        unnamed: Whether there may be keywords besides: those in a dict.
    """

    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    others: Value | None = None
    unnamed: bool = False

    def all(self) -> Value:
        """Return all of them as one value."""
        return PLAIN.union(*self.positional, *(value for _, value in self.keywords), self.others or ABSENT)

    def after(self, *first: Value) -> Args:
        """Return these arguments after others."""
        return Args((*first, *self.positional), self.keywords, self.others, self.unnamed)
