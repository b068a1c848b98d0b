"""Which source items an item came from, for the flows of a trace."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from spdl.pipeline._engine.groups import LISTED, Group, Result

if TYPE_CHECKING:
    from spdl.pipeline._engine.groups import Root

__all__ = ["origins"]


def origins(root: Root) -> tuple[int, ...]:
    """Return the roots of the source items that an item in flight came from: the first thousand, each once."""
    if not isinstance(root, Group):
        return (root,)
    found: dict[int, None] = {}
    # Many ways may lead to the same one.
    seen: set[Root] = set()
    pending: list[Root] = [root]
    while pending and len(found) < LISTED:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if not isinstance(each, Group):
            found[each] = None
        elif isinstance(each, Result):
            pending.append(each.results.parents[0])
        else:
            # The first ones first.
            pending += reversed(list(islice(each.origins(), LISTED)))
    return tuple(found)
