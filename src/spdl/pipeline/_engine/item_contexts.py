"""The contexts of items, made of their roots where an op asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.item_context import ItemContext

from .groups import Group, Result

if TYPE_CHECKING:
    from .engine import Engine
    from .groups import Root

__all__ = ["ItemWithContext", "context_of", "without_context"]


class ItemWithContext:
    """An item on its way to an op that asks for its context, which is made there, or where the item is pickled."""

    __slots__ = ("_engine", "_root", "item")

    def __init__(self, item: Any, engine: Engine | None, root: Any) -> None:
        self.item = item
        # In another process there is no engine, and the root is the context.
        self._engine = engine
        self._root = root

    def context(self) -> ItemContext:
        """Return the context. Called without the lock."""
        if self._engine is None:
            context: ItemContext = self._root
            return context
        return context_of(self._engine, self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemWithContext, (self.item, None, self.context())

    def __repr__(self) -> str:
        return repr(self.item)


def without_context(item: Any) -> Any:
    """Return the item alone."""
    return item.item if type(item) is ItemWithContext else item


def context_of(engine: Engine, root: Root) -> ItemContext:
    """Return the context of an item that is in flight. Called without the lock."""
    results: list[int] = []
    while isinstance(root, Group):
        if isinstance(root, Result):
            results.append(root.number)
            root = root.results.parents[0]
        elif len(root.parents) == 1 and root.packed() is None and not root.is_gathered:
            root = root.parents[0]
        else:
            members = tuple(context_of(engine, member) for member in root.origins())
            if not members:
                return ItemContext(0, -1, -1, 0, tuple(reversed(results)))
            first = members[0]
            numbers = tuple(reversed(results))
            return ItemContext(first.epoch, first.position, first.index, first.source, numbers, members)
    sources = engine.lineage.sources
    position, number = divmod(root, sources)
    source = next(source for source in engine.sources if source.index == number)
    epoch, place = source.passes.locate(position)
    index = place if source.indices is None else source.indices.get(root, place)
    return ItemContext(epoch, place, index, number, tuple(reversed(results)))
