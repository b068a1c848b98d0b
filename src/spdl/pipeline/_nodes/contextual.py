"""Stages whose op asks for the context of its item."""

from __future__ import annotations

from functools import cache
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

from spdl.pipeline._declare.op import bodies_of
from spdl.pipeline._engine.item_contexts import ItemWithContext
from spdl.pipeline._engine.sentinel import MARK

from .op_node import OpNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.channel import Entry

__all__ = ["contextual", "with_context"]

NodeType = TypeVar("NodeType", bound=type[OpNode])


class _Contextual(OpNode):
    """The part of such a stage that differs from others: each item that it takes has its context with it."""

    __slots__ = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Workers take the items of plain nodes without asking.
        self.plain = False

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        if entry is MARK:
            return entry
        root, item = entry
        return root, ItemWithContext(item, self.engine.locate_item, root)


@cache
def contextual(kind: NodeType) -> NodeType:
    """Return a kind of stage like this one whose op gets contexts."""
    return type(f"Contextual{kind.__name__}", (_Contextual, kind), {"__slots__": ()})  # type: ignore[return-value]


class _Call:
    """Calls an op with an item and its context. It can be pickled if the op can."""

    def __init__(self, op: Callable[..., Any], name: str) -> None:
        self.op = op
        self.name = name

    def __call__(self, pair: ItemWithContext) -> Any:
        return self.op(pair.item, **{self.name: pair.context()})


def with_context(op: Callable[..., Any], name: str) -> Callable[[ItemWithContext], Any]:
    """Return a function of an item with its context that calls an op, of the same kind as that.

    Args:
        op: The op.
        name: The parameter by which it gets the context.
    """
    call = _Call(op, name)
    if any(map(iscoroutinefunction, bodies_of(op))):

        async def awaits(pair: ItemWithContext) -> Any:
            return await call(pair)

        return awaits
    if any(map(isasyncgenfunction, bodies_of(op))):

        async def yields(pair: ItemWithContext) -> Any:
            results = call(pair)
            try:
                async for result in results:
                    yield result
            finally:
                await results.aclose()

        return yields
    return call
