"""Measures what it would take to hand a stage's items over to another process and to get the results back."""

from __future__ import annotations

import pickle
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["seconds_to_hand_over"]

# Of so many items, since one may be unlike the others.
_MOST_ITEMS = 5


def seconds_to_hand_over(items: Sequence[Any], results: Sequence[Any], results_per_item: float) -> float | None:
    """Return the seconds in which this process would pickle an item and unpickle its results, holding the GIL.

    What the other process does meanwhile does not count: there are several of it.

    Returns:
        The seconds, or None if there are no items or results, or if some cannot be pickled.
    """
    try:
        pickling = _mean([_timed(pickle.dumps, item) for item in _some(items)])
        unpickling = _mean([_timed(pickle.loads, pickle.dumps(result)) for result in _some(results)])
    except Exception:  # noqa: BLE001 - objects of the user's may raise anything when they are pickled.
        return None
    if pickling is None or unpickling is None:
        return None
    return pickling + results_per_item * unpickling


def _some(values: Sequence[Any]) -> Sequence[Any]:
    return values[:: max(1, len(values) // _MOST_ITEMS)][:_MOST_ITEMS]


def _timed(function: Any, argument: Any) -> float:
    begun = perf_counter()
    function(argument)
    return perf_counter() - begun


def _mean(seconds: Sequence[float]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None
