"""The contexts of items, made of their roots where an op asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.pipeline._declare.item_context import ItemContext

from .groups import Group, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from .groups import Root

    # Returns the context of a source's item, by its root.
    Locate: TypeAlias = Callable[[int], ItemContext]

__all__ = ["ItemWithContext", "context_of", "without_context"]


class ItemWithContext:
    """An item on its way to an op that asks for its context, which is made there, or where the item is pickled."""

    __slots__ = ("_locate", "_root", "item")

    def __init__(self, item: Any, locate: Locate | None, root: Any) -> None:
        self.item = item
        # In another process nothing is located, and the root is the context.
        self._locate = locate
        self._root = root

    def context(self) -> ItemContext:
        """Return the context. Called without the lock."""
        if self._locate is None:
            context: ItemContext = self._root
            return context
        return context_of(self._locate, self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemWithContext, (self.item, None, self.context())

    def __repr__(self) -> str:
        return repr(self.item)


def without_context(item: Any) -> Any:
    """Return the item alone."""
    return item.item if type(item) is ItemWithContext else item


def context_of(locate: Locate, root: Root) -> ItemContext:
    """Return the context of an item that is in flight. Called without the lock."""
    results: list[int] = []
    while isinstance(root, Group):
        if isinstance(root, Result):
            results.append(root.number)
            root = root.results.parents[0]
        elif len(root.parents) == 1 and root.packed() is None and not root.is_gathered:
            root = root.parents[0]
        else:
            members = tuple(context_of(locate, member) for member in root.origins())
            if not members:
                return ItemContext(0, -1, -1, 0, tuple(reversed(results)))
            first = members[0]
            numbers = tuple(reversed(results))
            return ItemContext(first.epoch, first.position, first.index, first.source, numbers, members)
    base = locate(root)
    # Of a region's source, an item may be a result or a batch already.
    numbers = (*base.results, *reversed(results))
    return ItemContext(base.epoch, base.position, base.index, base.source, numbers, base.members)
