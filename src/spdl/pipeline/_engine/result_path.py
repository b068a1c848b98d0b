"""The way from an item to one of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .groups import Group, Result

if TYPE_CHECKING:
    from .groups import Root

__all__ = ["result_path"]


def result_path(root: Root) -> tuple[int, ...] | None:
    """Return the position of the item that a result comes from, and the numbers of the results on the way to it.

    Args:
        root: Where the result comes from.

    Returns:
        The position alone if it is the item's only result; None if several items went into it, as into a batch.
    """
    path: list[int] = []
    while isinstance(root, Group):
        if isinstance(root, Result):
            path.append(root.number)
            root = root.results.parents[0]
        elif type(root) is Group and len(root.parents) == 1:
            # A batch that was taken apart and put together again is the same item.
            root = root.parents[0]
        else:
            return None
    return (root, *reversed(path))
