"""Which samples a loader could not load, as a value that a state holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.dataloader._media.sample_failure import SampleFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FailureRecord"]

_KEPT = 1000
_FIELDS = len(SampleFailure._fields)


class FailureRecord(NamedTuple):
    """How often samples have failed, and which: the last 1,000. It never changes, so it can be read at any moment."""

    count: int = 0  # type: ignore[assignment]  # Shadows tuple.count, which a record does not need.
    """How often one has failed, each time counted."""
    last: tuple[SampleFailure, ...] = ()
    """An entry for each sample, in the order in which they failed first: what is known of the last time."""

    def add(self, failures: Iterable[SampleFailure]) -> FailureRecord:
        """Return the record with more failures in it."""
        count, entries = self.count, {each.index: each for each in self.last}
        for failure in failures:
            count += failure.times
            before = entries.get(failure.index)
            entries[failure.index] = failure if before is None else failure._replace(times=before.times + failure.times)
        return FailureRecord(count, tuple(entries.values())[-_KEPT:])

    def pack(self) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {"count": self.count, "last": [list(failure) for failure in self.last]}

    @classmethod
    def unpack(cls, packed: Any) -> FailureRecord:
        """Return the record that was packed.

        Raises:
            ValueError: If it is not what `pack` returned.
        """
        count: Any = packed.get("count") if isinstance(packed, dict) else None
        last: Any = packed.get("last") if isinstance(packed, dict) else None
        if not isinstance(last, list) or len(last) > _KEPT or not _is_number(count) or count < len(last):
            raise ValueError(f"a dict with a 'count' and the 'last' failures, at most {_KEPT} and no more than counted")
        if not all(map(_is_failure, last)):
            raise ValueError(f"a dict whose 'last' are lists of {', '.join(SampleFailure._fields)}")
        return cls(count, tuple(SampleFailure(*each) for each in last))


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_failure(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != _FIELDS:
        return False
    epoch, index, path, reason, replacement, times = value
    return (
        _is_number(epoch)
        and _is_number(index)
        and (path is None or isinstance(path, str))
        and isinstance(reason, str)
        and (replacement is None or _is_number(replacement))
        and _is_number(times)
        and times > 0
    )
