"""One run of an op on an item, and the types of results that stand for results to come."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .groups import Root
    from .order import Ticket

__all__ = ["LAZY_TYPES", "Attempt"]

# An op that returns one of these has yet to run: a generator step by step, the others on the event loop.
LAZY_TYPES = frozenset([GeneratorType, CoroutineType, AsyncGeneratorType])


class Attempt(NamedTuple):
    """One run of an op on an item. It holds a slot."""

    root: Root
    item: Any
    ticket: Ticket | None
    number: int
