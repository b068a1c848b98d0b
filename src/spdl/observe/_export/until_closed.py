"""What works until it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["UntilClosed"]


class UntilClosed:
    """Closes itself at the end of a ``with`` block."""

    def close(self) -> None:
        """End. Further calls do nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the object itself, which works already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close it."""
        self.close()
