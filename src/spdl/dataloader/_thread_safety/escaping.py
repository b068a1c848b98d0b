"""Follows the calls that a library may make to its arguments."""

from __future__ import annotations

import dataclasses
import types
from collections import defaultdict
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .known_methods import words
from .known_objects import is_known_object
from .lookups import unknown
from .objects import CONTAINERS, is_array, is_of_python
from .values import PLAIN, Args, Bound, Held, Made, Thing, Unproven, Value

if TYPE_CHECKING:
    import ast

    from .any_search import AnySearch

__all__ = ["escape", "reach"]

# Not what operators and functions of libraries call.
_NOT_CALLED = words(
    "__init__ __new__ __del__ __setattr__ __delattr__ __getattr__ __getattribute__ __setitem__ __delitem__ __enter__ "
    "__exit__ __call__ __init_subclass__ __class_getitem__ __set_name__ __post_init__ __iadd__ __isub__ __imul__ "
    "__itruediv__ __ior__ __iand__ __subclasshook__ __instancecheck__ __subclasscheck__ __getitems__"
)

# Libraries call these of what is like a file or a dict.
_OF_FILES = words("read read1 readinto readline readlines seek tell write close flush fileno get items keys values")


def escape(search: AnySearch, value: Value, node: ast.AST) -> Value:
    """Follow what a library may do with a value: the special methods of its objects, and of what they hold.

    Returns:
        The objects of Python code and the dicts among them, which an array of objects would hold, and what the special
        methods return.

    Raises:
        Unproven: If it is not known what one of them is.
    """
    found = PLAIN
    everything = reach(search, value)
    for thing in everything:
        kind = getattr(thing, "kind", None)
        if not isinstance(thing, (Held, Made)) or kind is None or kind in CONTAINERS or is_array(kind):
            # An array of objects holds them as they are.
            found |= PLAIN if kind in {list, tuple, None} or _is_of_numbers(thing) else frozenset([thing])
            continue
        if not is_of_python(kind) or is_known_object(thing):
            continue
        if isinstance(thing, Held) and search.is_listed(kind.__module__):
            raise unknown(thing)
        found |= frozenset([thing])
        if isinstance(getattr(kind, "__iter__", None), types.FunctionType):
            found |= search.iterate(frozenset([thing]), node)
        for name in dir(kind):
            function = _special_method(search, kind, name)
            if function is not None:
                functions = search.objects.value_of([function], f"{kind.__name__}.{name}")
                for it in functions:
                    found |= search.call(frozenset([Bound(it, thing)]), Args(others=frozenset(everything)), node)
    return found


def _is_of_numbers(thing: Thing) -> bool:
    return isinstance(thing, Made) or (
        isinstance(thing, Held)
        and is_array(thing.kind)
        and not any(getattr(getattr(it, "dtype", None), "hasobject", False) for it in thing.objects)
    )


def _special_method(search: AnySearch, kind: type, name: str) -> types.FunctionType | None:
    if name not in _OF_FILES and (not (name.startswith("__") and name.endswith("__")) or name in _NOT_CALLED):
        return None
    for base in kind.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            if not isinstance(found, types.FunctionType) or found.__code__.co_filename == "<string>":
                return None
            # Dataclasses write it.
            if found.__code__.co_filename == dataclasses.__file__:
                return None
            return None if search.is_listed(found.__module__) else found
    return None


def reach(search: AnySearch, value: Value) -> set[Thing]:
    """Return the things of a value and all that they hold.

    Raises:
        Unproven: If it is not known what one of them is.
    """
    seen = set[Thing]()
    todo = list(value)
    while todo:
        thing = todo.pop()
        if thing in seen:
            continue
        seen.add(thing)
        if isinstance(thing, Made):
            todo += thing.contents
        elif isinstance(thing, Held):
            if issubclass(thing.kind, defaultdict):
                raise Unproven(f"`{thing.path}` is a defaultdict, which reading a missing key changes")
            if is_array(thing.kind) or issubclass(thing.kind, CONTAINERS):
                todo += search.objects.elements(thing)
            elif not (is_of_python(thing.kind) or is_known_object(thing)):
                raise unknown(thing)
    return seen
