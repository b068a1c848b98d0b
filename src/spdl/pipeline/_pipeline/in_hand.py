"""Items on their way from the sink to the consumer, as a signal handler finds them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

__all__ = ["READS", "in_hand"]

# The code of all methods that take an entry from a sink, note it as delivered, and return its item. Each calls the
# entry's root ``root``, and the pipeline ``self`` or ``self._pipeline``.
READS: set[CodeType] = set()


def in_hand(pipeline: object) -> list[Any]:
    """Return the roots of the entries that reads of this thread have taken from the sink and not returned yet.

    A signal handler runs between any two steps of a read. By then the entry may be noted as delivered, but the
    consumer does not have it. Only the read's own frame knows.
    """
    roots = []
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to one's own frames that costs so little.
    while frame is not None:
        if frame.f_code in READS:
            names = frame.f_locals
            reader = names["self"]
            # It is None until the read has taken one.
            if names.get("root") is not None and (reader is pipeline or getattr(reader, "_pipeline", None) is pipeline):
                roots.append(names["root"])
        frame = frame.f_back  # type: ignore[assignment]
    return roots
