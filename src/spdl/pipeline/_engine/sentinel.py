"""The objects that pass through a pipeline besides items."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["EOF", "EPOCH_END", "MARK", "Sentinel", "is_eof", "is_epoch_end"]


class Sentinel:
    """An object that is told by its identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


EPOCH_END: Final = Sentinel("EPOCH_END")
EOF: Final = Sentinel("EOF")

# The queue entry that stands between two epochs. Each stage passes it on when all before it has left.
MARK: Final[tuple[Any, Any]] = (EPOCH_END, None)


def is_epoch_end(item: object) -> bool:
    """Return whether ``item`` marks the end of a pass over a continuous source, for custom merge ops and queues.

    Never raises.

    Args:
        item: Anything that came out of a queue.

    Example:
        >>> from spdl.pipeline import is_epoch_end
        >>> is_epoch_end("an item")
        False
    """
    return item is EPOCH_END


def is_eof(item: object) -> bool:
    """Return whether ``item`` marks the end of a queue, for custom merge ops and queues. Never raises.

    Args:
        item: Anything that came out of a queue.

    Example:
        >>> from spdl.pipeline import is_eof
        >>> is_eof("an item")
        False
    """
    return item is EOF
