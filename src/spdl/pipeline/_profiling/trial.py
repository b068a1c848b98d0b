"""Finds out whether a stage can be given the same items for each of its measurements."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.policy import BEAR_ALL
from spdl.pipeline._declare.records import AggregateConfig, PipeConfig

from .measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spdl.pipeline._declare.records import StageConfig

    from .measure import Measurement

__all__ = ["Trial", "try_again"]

# Ops that are slower than this are taken to bear the same item again: trying it would take too long.
_SLOW_SECONDS = 1.0
# How many items are tried for one that the op does not fail on.
_MOST_ITEMS = 3
# How often an op must refuse an item that it took before: one that fails now and then does not do it so often.
_REFUSALS = 2


class Trial:
    """Whether a stage can be given the same item again, as far as one item tells.

    It also has done what an op does in its first call only, such as importing what it needs.

    Attributes:
        num_items: How many items were tried.
        used_up: What the stage gave for them, if it cannot be given the same item again.
    """

    def __init__(self, num_items: int, used_up: list[Any] | None) -> None:
        self.num_items = num_items
        self.used_up = used_up


def try_again(stage: StageConfig, items: Sequence[Any]) -> Trial:
    """Try a stage on one item several times.

    It cannot be given an item again if it then fails, or gives nothing, though it did not the first time.
    """
    if isinstance(stage, AggregateConfig):
        return Trial(0, None)
    if isinstance(stage, PipeConfig):
        # A retry would be one more time.
        stage = replace(stage, policy=BEAR_ALL)
    for index, item in enumerate(items[:_MOST_ITEMS]):
        first = _try(stage, item)
        if first.stats.seconds > _SLOW_SECONDS:
            break
        if first.outputs:
            with _no_word_of(stage):
                if not any(_try(stage, item).outputs for _ in range(_REFUSALS)):
                    return Trial(index + 1, first.outputs)
            break
    return Trial(0, None)


def _try(stage: StageConfig, item: Any) -> Measurement:
    return measure(stage, [item], 1, repeat=False, most_outputs=1)


@contextmanager
def _no_word_of(stage: StageConfig) -> Iterator[None]:
    """Log no failures of the stage: that it does not take an item twice is no mistake."""

    def is_other(record: logging.LogRecord) -> bool:
        return not (record.msg.startswith("Stage ") and isinstance(record.args, tuple) and stage.name in record.args)

    log = logging.getLogger("spdl.pipeline")
    log.addFilter(is_other)
    try:
        yield
    finally:
        log.removeFilter(is_other)
