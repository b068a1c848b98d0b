"""Which records of several cannot be had, and why; what else goes wrong is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.io._common.one_version import ChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Defect", "find_defects", "is_defect"]

# What is the program's fault, or the machine's, or would be wrong with what was not read yet, too.
_OF_ALL = (MemoryError, ImportError, NameError, ChangedError)


class Defect(NamedTuple):
    """What stands in the place of a record that cannot be had."""

    reason: str
    """What was raised for it, as text: the exception would keep the frames that have the other records."""

    @classmethod
    def of(cls, error: Exception) -> Defect:
        """Return the defect that an exception tells of."""
        text = str(error)
        return cls(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def is_defect(error: Exception) -> bool:
    """Return whether an exception tells of the record that was asked for, and not of the storage or the program.

    A file that is missing is a defect of what names it. Any other OSError of the system or of a store may be gone the
    next time. Without a number it is that of a library which cannot read some content, such as Pillow.
    """
    if isinstance(error, FileNotFoundError):
        return True
    if isinstance(error, OSError):
        from spdl.store import StoreError  # noqa: PLC0415 - only for those whose storage fails.

        return error.errno is None and not isinstance(error, StoreError | ConnectionError | TimeoutError)
    return not isinstance(error, _OF_ALL)


def find_defects(
    read: Callable[[list[int]], Sequence[Any]], positions: list[int], accepts: Callable[[Exception], bool] = is_defect
) -> list[Any]:
    """Return the records at some positions, with a `Defect` for each that cannot be had.

    If reading all of them fails, each half is read by itself, so few reads single out few records.

    Args:
        read: Reads the records at some positions.
        positions: The positions.
        accepts: Returns whether an exception tells of a record.

    Raises:
        Exception: Any that tells of no record; and any that none of the records raises by itself.
    """
    try:
        return list(read(positions))
    except Exception as error:
        if not accepts(error):
            raise
        if len(positions) == 1:
            return [Defect.of(error)]
        middle = len(positions) // 2
        found = [
            each for half in (positions[:middle], positions[middle:]) for each in find_defects(read, half, accepts)
        ]
        if not any(isinstance(each, Defect) for each in found):
            raise
        return found
