"""Finds what threads must not share in a dataset."""

from __future__ import annotations

import dis
import io
import threading
from types import FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

__all__ = ["find_danger"]

# A reader has one position, which threads would move under each other. By name: nothing is imported to look.
_READERS = {
    "av.container.input.InputContainer",
    "cv2.VideoCapture",
    "decord.video_reader.VideoReader",
    "lmdb.Cursor",
    "lmdb.Transaction",
    "sqlite3.Connection",
    "sqlite3.Cursor",
    "tarfile.TarFile",
}

_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore)

# Only the user's code is searched.
_LIBRARIES = ("torch.", "torchvision.", "numpy.", "PIL.", "spdl.")

# What a dataset is called by while it loads an item.
_ENTRANCES = ("__getitem__", "__getitems__", "__call__", "forward")

# How deep datasets and transforms are nested, and how many elements of a list of transforms are looked at.
_DEPTH = 5
_WIDTH = 32


def find_danger(part: Any, path: str) -> str | None:
    """Return in words what threads must not share in a dataset or a function, or None if nothing was found.

    It looks at what the object holds, and whether its code changes the object while it loads an item. An object that
    holds a lock is taken to know what it does.

    Args:
        part: The dataset or function.
        path: What to call it.
    """
    return _search(part, path, 0, set())


def _search(part: Any, path: str, depth: int, seen: set[int]) -> str | None:
    if id(part) in seen or depth > _DEPTH:
        return None
    seen.add(id(part))
    if (reader := _name_reader(part)) is not None:
        return f"`{path}` is {reader}, whose position threads would move under each other"
    held = _held(part, path)
    if held is None or any(isinstance(value, _LOCKS) for _, value in held):
        return None
    changed = _find_change(type(part))
    if changed is not None:
        attribute, method = changed
        return f"`{path}.{attribute}` is set while an item is loaded (in {method}), and threads would share it"
    for inner, value in held:
        if (danger := _search(value, inner, depth + 1, seen)) is not None:
            return danger
    return None


def _name_reader(part: Any) -> str | None:
    if isinstance(part, io.IOBase):
        return "an open file"
    if isinstance(part, GeneratorType):
        return "a generator"
    for kind in type(part).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in _READERS:
            return f"a {name}"
    return None


def _held(part: Any, path: str) -> list[tuple[str, Any]] | None:
    """Return what an object holds, by name. None if it cannot hold anything of interest."""
    if isinstance(part, (list, tuple)):
        return [(f"{path}[{index}]", value) for index, value in enumerate(part[:_WIDTH])]
    if isinstance(part, dict):
        return [(f"{path}[{key!r}]", part[key]) for key in list(part)[:_WIDTH]]
    if isinstance(part, MethodType):
        return [(path, part.__self__)]
    if isinstance(part, type) or not hasattr(part, "__dict__"):
        return None
    return [(f"{path}.{name}", value) for name, value in list(vars(part).items())]


def _find_change(kind: type) -> tuple[str, str] | None:
    """Return an attribute that an object of the class sets on itself while it loads an item, and where."""
    todo = [name for name in _ENTRANCES if hasattr(kind, name)]
    seen = set(todo)
    while todo:
        name = todo.pop()
        function = getattr(kind, name, None)
        if not isinstance(function, FunctionType) or f"{function.__module__}.".startswith(_LIBRARIES):
            continue
        code = function.__code__
        for inner in _codes(code):
            if code.co_argcount and (attribute := _stored(inner, code.co_varnames[0])) is not None:
                return attribute, f"{kind.__name__}.{name}"
            methods = [
                it for it in inner.co_names if it not in seen and isinstance(getattr(kind, it, None), FunctionType)
            ]
            seen.update(methods)
            todo += methods
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from _codes(constant)


def _stored(code: CodeType, owner: str) -> str | None:
    """Return the attribute of the variable that the code sets."""
    # What is assigned comes first, then its owner is loaded and the attribute stored. An augmented assignment loads the
    # owner before it reads the attribute.
    before: Any = None
    read: set[str] = set()
    for step in dis.get_instructions(code):
        loaded = before is not None and _loads(before, owner)
        if step.opname in ("COPY", "DUP_TOP") and loaded:
            # The copy stands for the owner.
            continue
        if step.opname == "LOAD_ATTR" and loaded:
            read.add(str(step.argval))
        if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
            augmented = before is not None and before.opname in ("SWAP", "ROT_TWO") and step.argval in read
            if loaded or augmented:
                return str(step.argval)
        before = step
    return None


def _loads(step: Any, owner: str) -> bool:
    """Return whether the variable is what the instruction leaves on top of the stack."""
    if not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "STORE_FAST_LOAD_FAST")):
        return False
    return bool(step.argval == owner or (isinstance(step.argval, tuple) and step.argval[-1] == owner))
