"""The places of the engine where a thread may be stopped: one before each statement, and which of them are delicate."""

from __future__ import annotations

import ast
from typing import NamedTuple

__all__ = ["Site", "add_site", "is_delicate", "site"]

# What threads look at, or change, without the engine's lock; and what takes, leaves or waits for a lock.
_UNGUARDED = frozenset(
    {
        "stopping", "done", "is_over", "cancelled", "ended", "full", "entries", "readers", "idle", "waking",
        "event_loop", "acquire", "release", "lock", "wake", "wait_for_room", "cancel", "cancelling", "posted",
        "interrupt",
    }
)  # fmt: skip


class Site(NamedTuple):
    """A place before a statement.

    Attributes:
        module: The module.
        line: The line of the statement.
        delicate: Whether the statement, or the one before it, is about something that no lock guards, or about a lock:
            what others do right then or there may make a difference.
    """

    module: str
    line: int
    delicate: bool


# By their numbers; no statement has the number 0.
_SITES: list[Site] = [Site("", 0, delicate=False)]


def add_site(module: str, line: int, *, delicate: bool) -> int:
    """Note a place, and return its number."""
    _SITES.append(Site(module, line, delicate))
    return len(_SITES) - 1


def site(number: int) -> Site:
    """Return the place of a number."""
    return _SITES[number]


def is_delicate(statement: ast.AST) -> bool:
    """Return whether a statement, without those inside of it, names anything of that kind."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute) and node.attr in _UNGUARDED:
            return True
        if isinstance(node, ast.Name) and node.id in _UNGUARDED:
            return True
        pending += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.ExceptHandler)
        ]
    return False
