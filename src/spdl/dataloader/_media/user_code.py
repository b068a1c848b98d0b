"""Calls of the user's code, whose exceptions say of which sample they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["UserCode"]


class UserCode:
    """A context in which code of the user's is called.

    An exception passes with a note. StopIteration does not: it would end the consumer's loop as if there were no more.

    Args:
        doing: What is done for which sample, such as "looking up sample 3".
    """

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Add the note.

        Raises:
            RuntimeError: Instead of StopIteration.
        """
        if kind is not None and issubclass(kind, StopIteration):
            raise RuntimeError(
                f"StopIteration was raised while spdl.dataloader was {self._doing}, which would end the loop early and "
                "in silence. Raise IndexError or another exception."
            ) from error
        if isinstance(error, Exception):
            error.add_note(f"spdl.dataloader was {self._doing}")
