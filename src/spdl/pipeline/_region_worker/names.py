"""What a worker calls a result: by the items that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._engine.groups import Group
from spdl.pipeline._engine.result_path import result_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._regions.messages import Name

__all__ = ["name_of_result", "numbers_of"]


def name_of_result(root: Root, number_of: Callable[[int], int]) -> Name:
    """Return the name of a result.

    Args:
        root: Where it comes from.
        number_of: Returns the number of the item at a position.
    """
    path = result_path(root)
    if path is None:
        return numbers_of(root, number_of)
    position, *results = path
    number = number_of(position)
    return (number, *results) if results else number


def numbers_of(root: Root, number_of: Callable[[int], int]) -> list[int]:
    """Return the numbers of all items that went into a result, each once, in the order in which they were merged."""
    found: dict[int, None] = {}
    seen: set[Root] = set()
    pending = [iter([root])]
    while pending:
        current = next(pending[-1], None)
        if current is None:
            pending.pop()
        elif current not in seen:
            seen.add(current)
            if isinstance(current, Group):
                pending.append(current.origins())
            else:
                found[number_of(current)] = None
    return list(found)
