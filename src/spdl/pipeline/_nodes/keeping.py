"""What an aggregator keeps past a result without saying so, as far as it can be seen from outside."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from enum import Enum
from functools import partial
from logging import Logger, LoggerAdapter
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spdl.pipeline._declare.aggregator import Aggregator

__all__ = ["Keeping", "has_leftover"]

_NUMBERS = (bool, int, float, complex)
_TEXTS = (str, bytes)
_CONTAINERS = (list, tuple, set, frozenset, deque)

# Nothing is looked for further in.
_DEEPEST = 4
_MOST_PARTS = 1_000

# What cannot be changed where it is, or holds nothing of items.
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
        f"G{_two_methods(op)[1:]} If it only puts whole items into lists, `held_back()` will do, which returns those "
        "that it keeps, or () if it keeps none."
    )


def _two_methods(op: object) -> str:
    return (
        f"give {type(op).__name__} the methods `state_dict()`, which returns what is left over behind the last result "
        "as JSON or arrays, and `load_state_dict(state)`."
    )


class Keeping:
    """Looks behind each result whether an aggregator holds what it did not hold before the first item.

    Of one without ``held_back`` all that it can change must be known: its attributes, those of its class, and the
    variables of other scopes and modules that its methods name. Of one that has it, only what is not whole items is
    looked for.

    Attributes:
        found: What it seems to keep, as a part of a sentence; None as long as nothing was seen.
    """

    def __init__(self, op: Aggregator[Any, Any], *, tells: bool) -> None:
        self.found: str | None = None
        self._op: Aggregator[Any, Any] | None = op
        self._tells = tells
        # What each variable was; with the value, so that nothing else gets its identity.
        self._before: dict[str, tuple[Any, Any]] | None = None

    def begin(self) -> None:
        """Note what there is before the first item."""
        if self._before is None:
            self._before = {name: (_frozen(value), value) for name, value in _variables(self._op)}

    def let_go(self) -> list[Any]:
        """Forget the aggregator, and return it and what it had."""
        dropped = [self._op, self._before]
        self._op = self._before = None
        return dropped

    def note_unproven(self, what: str) -> None:
        """Note that a result does not show that each item comes once.

        Args:
            what: Which one, as a part of a sentence.
        """
        if self.found is None:
            self.found = (
                f"cannot be resumed exactly: it keeps items past a result, and {what}. It must return lists of the "
                "very objects that it was given, each in one list. What is made of them is made in a stage behind it, "
                f"and a rest is dropped by `drop_last=True`. Or {_two_methods(self._op)}"
            )

    def look(self, held: Iterable[object]) -> None:
        """Look at the variables behind a result.

        Args:
            held: What it says it keeps.
        """
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
                f"cannot be resumed exactly: behind a result, its `{name}` may hold a part of its items, which the "
                f"state would know nothing of. {_remedy(self._op)}"
            )
            return


def _variables(op: object) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of all that an aggregator may keep something in."""
    for name, value in getattr(op, "__dict__", {}).items():
        yield name, value
        if isinstance(value, FunctionType) and value.__module__ == type(op).__module__:
            yield from _outside(value)
    for kind in type(op).__mro__:
        if kind.__module__.partition(".")[0] in ("spdl", "builtins", "typing", "abc"):
            continue
        for name, value in list(vars(kind).items()):
            if isinstance(value, FunctionType):
                yield from _outside(value)
            elif isinstance(value, MemberDescriptorType):
                yield name, getattr(op, name, None)
            elif not name.startswith(("__", "_abc_")) and not hasattr(type(value), "__get__"):
                yield f"{kind.__name__}.{name}", value


def _outside(function: FunctionType, seen: set[FunctionType] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the variables of other scopes and modules that a function names, or one beside it that it calls."""
    seen = set() if seen is None else seen
    seen.add(function)
    names, codes = set[str](), [function.__code__]
    for code in codes:
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":
            yield name, _content(cell)
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, FunctionType) and value.__module__ == function.__module__ and value not in seen:
            yield from _outside(value, seen)
        yield name, value
    for number, value in enumerate(function.__defaults__ or ()):
        yield f"default {number} of {function.__name__}", value


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # It is empty.
        return None


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
    """Return what tells a value from what it was before; `_UNKNOWN` if nobody can tell."""
    if value is None or isinstance(value, (*_NUMBERS, *_TEXTS)):
        return type(value), value
    if _is_fixed(value):
        # Whoever keeps it keeps it as it is, so it cannot go and another come in its place.
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
