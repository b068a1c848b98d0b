"""Samples that could not be loaded: noted, logged, and kept by a state."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._media.sample_failure import SampleFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

__all__ = ["FailureRecord", "LoaderLog", "UserCode"]

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


_LOGGED = 10

_LOG = logging.getLogger("spdl.dataloader")


class LoaderLog:
    """Keeps what has failed in a loader, and logs it: the first samples once each, then ever fewer failures.

    Args:
        loader: The name of the loader's class.
    """

    def __init__(self, loader: str) -> None:
        self._loader = loader
        # It is replaced in one assignment: a signal handler sees it with all failures of a batch, or with none.
        self._record = FailureRecord()

    @property
    def record(self) -> FailureRecord:
        """What has failed so far."""
        return self._record

    def note(self, failures: Sequence[SampleFailure]) -> None:
        """Keep failures, and log some of them."""
        known = {each.index for each in self._record.last}
        first = self._record.count + 1
        self._record = self._record.add(failures)
        for number, failure in enumerate(failures, first):
            # One that fails in each epoch must not hide others that come later.
            is_new = failure.index not in known and len(known) < _LOGGED
            known.add(failure.index)
            if is_new or (number > _LOGGED and not number & (number - 1)):
                instead = "left out" if failure.replacement is None else f"replaced by sample {failure.replacement}"
                text = "%s, failure %d: sample %d, %r, was %s: %s"
                _LOG.warning(text, self._loader, number, failure.index, failure.path, instead, failure.reason)

    def take_over(self, record: FailureRecord) -> None:
        """Go on with the record of another run, and count on from it."""
        self._record = record
