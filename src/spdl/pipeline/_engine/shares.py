"""Sources that yield one rank's share of the data, and can share what is left anew."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from .resumption import has_state, offers

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Received",
    "advance",
    "can_merge",
    "has_another_share",
    "is_of_all_ranks",
    "merge_into",
    "take_share",
]


class Received(NamedTuple):
    """What was received of a pass.

    Attributes:
        before: What the source's ``state_dict()`` returned before the pass.
        first: How many items from the first one on were received.
        beyond: Ranges of items that were received besides: the first and the one after the last.
    """

    before: Any
    first: int
    beyond: tuple[tuple[int, int], ...]


def advance(source: Any, received: Received) -> Any:
    """Return the state of a source whose consumer has received so much."""
    return source.advance_state(received.before, received.first, received.beyond)


def has_another_share(source: Any, before: Any) -> bool:
    """Return whether a pass was another share of the data than this source would yield now. Changes its state.

    Args:
        source: Any source.
        before: What the ``state_dict()`` of the one that was read returned before the pass.
    """
    if before is None or not (has_state(source) and offers(source, "advance_state")):
        return False
    source.load_state_dict(before)
    # As JSON brings it back.
    return bool(json.loads(json.dumps(source.state_dict())) != json.loads(json.dumps(before)))


def is_of_all_ranks(source: Any, before: Any) -> bool:
    """Return whether what a source said of itself tells what all ranks have received, since there was only one."""
    try:
        source.merge_states([before])
    except (AttributeError, ValueError):
        return False
    return True


def take_share(source: Any, received: Received) -> None:
    """Have a source yield its share of what no rank has received."""
    source.load_state_dict(advance(source, received))


def can_merge(source: object) -> bool:
    """Return whether a source can share anew what several ranks have left."""
    return has_state(source) and offers(source, "advance_state", "merge_states")


def merge_into(source: Any, states: Sequence[Any]) -> None:
    """Have a source yield its share of what several ranks have not received.

    Args:
        source: The source.
        states: What the source of each rank would say of itself.
    """
    source.load_state_dict(source.merge_states(states))
