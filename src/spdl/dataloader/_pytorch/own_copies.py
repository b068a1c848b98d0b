"""Copies of an iterable dataset, of which each worker thread iterates its own."""

from __future__ import annotations

import copy
import logging
from gc import get_referents
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["make_own_copies"]

_LG = logging.getLogger("spdl.dataloader")

# They never change, or copies are not wanted.
_SHARED_ANYWAY = (int, float, complex, bool, str, bytes, type(None), type, ModuleType, BuiltinFunctionType, range)


def make_own_copies(dataset: Any, count: int) -> list[Any]:
    """Return deep copies of a dataset. What they share nevertheless is logged, as a warning."""
    try:
        copies = [copy.deepcopy(dataset) for _ in range(count)]
    except Exception as error:  # noqa: BLE001 - whatever an object makes of being copied.
        _LG.warning(
            "Worker threads share what the dataset holds, since a %s cannot be copied: %r. Each has a shallow copy of "
            "the dataset itself. If they must not share it, use workers='process'.",
            type(dataset).__name__,
            error,
        )
        return [copy.copy(dataset) for _ in range(count)]
    if count and (shared := _find_shared(dataset, copies[0])) is not None:
        _LG.warning(
            "Worker threads share a %s that the dataset holds: its copies are not apart from each other. If they must "
            "not share it, use workers='process'.",
            type(shared).__name__,
        )
    return copies


def _find_shared(dataset: Any, other: Any) -> Any:
    """Return something that may change and that both hold, or None."""
    own = {id(it) for it in _reach(dataset)}
    return next((it for it in _reach(other) if id(it) in own and _may_change(it)), None)


def _may_change(it: Any) -> bool:
    if isinstance(it, FunctionType):
        return False
    # Tuples of what never changes are not copied.
    return not isinstance(it, (tuple, frozenset)) and type(it).__name__ != "cell"


def _reach(it: Any) -> list[Any]:
    seen: dict[int, Any] = {}
    todo = [it]
    while todo:
        it = todo.pop()
        if id(it) in seen or isinstance(it, _SHARED_ANYWAY):
            continue
        seen[id(it)] = it
        # A function's names are those of its module, which all workers share.
        todo += [*(it.__closure__ or ()), it.__defaults__] if isinstance(it, FunctionType) else get_referents(it)
    return list(seen.values())
