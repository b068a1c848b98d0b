"""Finds out whether a stage can take the same items in each of its measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.policy import DEFAULT_POLICY
from spdl.pipeline._declare.records import AggregateConfig, PipeConfig

from .measure import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._declare.records import StageConfig

    from .measure import Measurement

__all__ = ["Trial", "try_again"]

# Ops that are slower than this are assumed to accept the same item again, since a trial would take too long.
_SLOW_SECONDS = 1.0
# How many items are tried to find one that the op does not fail on.
_MOST_ITEMS = 3
# How often in a row an op must refuse an item that it took before. An op that fails now and then refuses less often.
_REFUSALS = 2


class Trial:
    """The result of a trial: whether a stage can take the same item again, as far as one item shows.

    The trial also lets the op do the work of a first call, such as importing modules.

    Attributes:
        num_items: How many items were tried.
        used_up: The results for these items if the stage cannot take the same item again, else None.
    """

    def __init__(self, num_items: int, used_up: list[Any] | None) -> None:
        self.num_items = num_items
        self.used_up = used_up


def try_again(stage: StageConfig, items: Sequence[Any]) -> Trial:
    """Try a stage on one item several times.

    It cannot take an item again if it had a result the first time, but then fails or has none. The pipelines log its
    failures, so the caller has to keep these back.
    """
    if isinstance(stage, AggregateConfig):
        return Trial(0, None)
    if isinstance(stage, PipeConfig):
        # Without retries, each of which would be one more trial.
        stage = replace(stage, policy=DEFAULT_POLICY)
    for index, item in enumerate(items[:_MOST_ITEMS]):
        first = _try(stage, item)
        if first.stats.seconds > _SLOW_SECONDS:
            break
        if first.outputs:
            if not any(_try(stage, item).outputs for _ in range(_REFUSALS)):
                return Trial(index + 1, first.outputs)
            break
    return Trial(0, None)


def _try(stage: StageConfig, item: Any) -> Measurement:
    return measure(stage, [item], 1, repeat=False, most_outputs=1)
