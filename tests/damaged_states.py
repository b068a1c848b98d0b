"""States in which one thing was removed or replaced."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Damaged", "each_damage", "not_refused"]

_VALUES: list[Any] = [None, "x", "", [], [5, 1], {}, -1, 0, 1, 5, 10**6, 10**30, 1.5, float("nan"), True, False]


class Damaged(NamedTuple):
    """What was done to a state, and what it is then."""

    what: str
    state: Any


def each_damage(state: dict[str, Any]) -> Iterator[Damaged]:
    """Yield the state once for each of its parts and each thing that can happen to it."""
    for path in list(_paths(state)):
        place = ".".join(map(str, path))
        holder, last = _find(state, path)
        for change in [*_VALUES, *_near(holder[last])]:
            damaged = copy.deepcopy(state)
            into, _ = _find(damaged, path)
            into[last] = change
            if repr(damaged) != repr(state):
                yield Damaged(f"{place} = {change!r}", damaged)
        damaged = copy.deepcopy(state)
        into, _ = _find(damaged, path)
        del into[last]
        yield Damaged(f"{place} removed", damaged)
        if isinstance(holder, list):
            damaged = copy.deepcopy(state)
            into, _ = _find(damaged, path)
            into.insert(last, copy.deepcopy(holder[last]))
            yield Damaged(f"{place} twice", damaged)


def not_refused(target: Any, state: dict[str, Any]) -> list[str]:
    """Return which damages of a state an object loads as if there were none."""
    loaded: list[str] = []
    for damage in each_damage(state):
        try:
            target.load_state_dict(damage.state)
        except (TypeError, ValueError):
            continue
        loaded.append(damage.what)
    return loaded


def _near(value: Any) -> list[Any]:
    """Return values that are easily taken for this one."""
    if type(value) is int:
        return [value - 1, value + 1, float(value), str(value), [value]]
    return [[value], {"x": value}]


def _paths(part: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys: Any = part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    for key in keys:
        yield (*above, key)
        yield from _paths(part[key], (*above, key))


def _find(state: Any, path: tuple[Any, ...]) -> tuple[Any, Any]:
    for key in path[:-1]:
        state = state[key]
    return state, path[-1]
