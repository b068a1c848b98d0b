"""Items on their way from the sink to the consumer, as a signal handler finds them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import CodeType

__all__ = ["in_hand"]


def in_hand(pipeline: object, reads: Collection[CodeType]) -> list[Any]:
    """Return the roots of the entries that reads of this thread have taken from the sink and not returned yet.

    A signal handler runs between any two steps of a read. By then the entry may be noted as delivered, but the
    consumer does not have it. Only the read's own frame knows.

    Args:
        pipeline: The pipeline that is read.
        reads: The code of its methods and its iterators' that read: they call the entry's root ``root``.
    """
    roots = []
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to one's own frames that costs so little.
    while frame is not None:
        if frame.f_code in reads:
            names = frame.f_locals
            reader = names["self"]
            if "root" in names and (reader is pipeline or getattr(reader, "_pipeline", None) is pipeline):
                roots.append(names["root"])
        frame = frame.f_back  # type: ignore[assignment]
    return roots
