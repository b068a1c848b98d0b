"""Finds what keeps threads from sharing a dataset."""

from __future__ import annotations

import ast
from gc import get_referents
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._thread_safety.library_calls import reach
from spdl.dataloader._thread_safety.values import PLAIN, Args, Held, Thing, Unproven, Value

from .calling import Calling
from .objects import CONTAINERS, is_array, is_of_python

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find_obstacle"]

_INDEX = ast.Subscript(ast.Name("dataset"), ast.Name("index"))
_INDICES = ast.List([])
_ITEMS = ast.List([])
_BATCH = ast.Call(ast.Name("collate_fn"), [], [])

# How many objects of a sampler are looked at.
_MOST_OBJECTS = 1_000_000


def find_obstacle(dataset: Any, collate_fn: Any, samplers: Sequence[Any], *, batched: bool) -> str | None:
    """Return why it is not proven that threads may share a dataset, or None if it is.

    It follows the code that loads an item from ``__getitem__`` on, through all functions of Python code, and knows
    the objects that they use. Threads may share the dataset if all that outlives the loading of an item is only read:
    by code that was followed, and by functions and methods of libraries that are known for it.

    Args:
        dataset: The dataset.
        collate_fn: Makes a batch of a list of items, or converts one item.
        samplers: Those that are not PyTorch's or ours: what they yield may be slices, and they may change the dataset.
        batched: Whether indices come in batches.
    """
    calling = Calling()
    try:
        data = calling.objects.value_of([dataset], "dataset")
        index = calling.made(_INDEX) if samplers else PLAIN
        batch = _follow(
            calling, data, collate_fn, index, in_one_call=batched and hasattr(dataset, "__getitems__"), batched=batched
        )
        for thing in reach(calling, batch):
            _check_given_away(thing)
    except Unproven as found:
        return f"{found.what} ({found.place})" if found.place else found.what
    except Exception as error:  # noqa: BLE001 - objects may do anything when they are looked at.
        return f"its code cannot be followed: {error!r}"
    return _find_changing_sampler(samplers, {id(dataset), *calling.objects.shared()})


def _follow(calling: Calling, data: Value, collate_fn: Any, index: Value, *, in_one_call: bool, batched: bool) -> Value:
    """Return what a batch may be."""
    if in_one_call:
        items = calling.call_method(data, "__getitems__", Args((calling.made(_INDICES, index, list),)), _INDEX)
    else:
        items = calling.subscript(data, index, _INDEX)
        items = calling.made(_ITEMS, items, list) if batched else items
    collate = calling.objects.value_of([collate_fn], "collate_fn")
    return calling.call(collate, Args((items,)), _BATCH)


def _check_given_away(thing: Thing) -> None:
    if not isinstance(thing, Held) or thing.kind in {tuple, frozenset}:
        return
    changes = is_of_python(thing.kind) or thing.kind in CONTAINERS
    if is_array(thing.kind):
        changes = any(getattr(getattr(it, "flags", None), "writeable", True) for it in thing.objects)
    if changes:
        raise Unproven(f"a batch may hold `{thing.path}` itself, which the loop could change")


def _globals_of(kind: type) -> list[Any]:
    """Return the variables of modules that the methods of a class name."""
    methods = [it for base in kind.__mro__ for it in vars(base).values() if isinstance(it, FunctionType)]
    return [
        method.__globals__[name]
        for method in methods
        for name in method.__code__.co_names
        if name in method.__globals__ and not isinstance(method.__globals__[name], (FunctionType, type, ModuleType))
    ]


def _find_changing_sampler(samplers: Sequence[Any], shared: set[int]) -> str | None:
    """Return which sampler can change what worker threads read, since it holds it: the loop's thread runs samplers."""
    for sampler in samplers:
        seen, todo = set[int](), [sampler, *_globals_of(type(sampler))]
        while todo:
            it = todo.pop()
            if id(it) in shared:
                name = type(sampler).__name__
                return f"the {name} holds a {type(it).__name__} of the dataset, which it could change meanwhile"
            if id(it) in seen or isinstance(it, (type, ModuleType)):
                continue
            seen.add(id(it))
            if len(seen) > _MOST_OBJECTS:
                return f"the {type(sampler).__name__} holds more objects than are looked at"
            # A function's names are those of its module.
            todo += (it.__closure__ or ()) if isinstance(it, FunctionType) else get_referents(it)
    return None
