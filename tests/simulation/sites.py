"""The places of the engine where a thread may be stopped, one before each statement, and what they are about."""

from __future__ import annotations

import ast
from typing import NamedTuple

__all__ = ["Site", "add_site", "delicate_names", "site"]

# What threads look at, or change, without the engine's lock; and what takes, leaves or waits for a lock.
_UNGUARDED = frozenset(
    {
        "stopping", "done", "is_over", "cancelled", "ended", "full", "entries", "readers", "idle", "waking",
        "event_loop", "acquire", "release", "lock", "wake", "wait_for_room", "cancel", "cancelling", "posted",
        "interrupt", "_pop", "ends",
    }
)  # fmt: skip


class Site(NamedTuple):
    """A place before a statement.

    Attributes:
        module: The module.
        line: The line of the statement.
        names: What the statement, or the one before it, names that no lock guards, or that is about a lock: what others
            do right then or there may make a difference.
    """

    module: str
    line: int
    names: tuple[str, ...]


# By their numbers; no statement has the number 0.
_SITES: list[Site] = [Site("", 0, ())]


def add_site(module: str, line: int, names: frozenset[str]) -> int:
    """Note a place, and return its number."""
    _SITES.append(Site(module, line, tuple(sorted(names))))
    return len(_SITES) - 1


def site(number: int) -> Site:
    """Return the place of a number."""
    return _SITES[number]


def delicate_names(statement: ast.AST) -> frozenset[str]:
    """Return what a statement, without those inside of it, names of that kind."""
    names = set()
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        if isinstance(node, ast.Name):
            names.add(node.id)
        pending += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.ExceptHandler)
        ]
    return _UNGUARDED & names
