"""The samples that could not be loaded, and the context in which user code is called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spdl.dataloader._loader.loader_state import World

_SHOWN = 5


class SampleFailure(NamedTuple):
    """A sample that a loader could not load.

    Example:
        >>> SampleFailure(epoch=0, index=7, path="7.jpg", reason="truncated", replacement=3).index
        7
    """

    epoch: int
    """The number of the epoch; in ``loader.failures`` that of the last time."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position of the sample in the source."""
    path: str | None
    """Its path or name, or its URL without what may be a secret; else where the source has it, such as
    ``"train-0000.tar/000012"``; None if it cannot say."""
    reason: str
    """What went wrong."""
    replacement: int | None = None
    """The position of the sample that took its place; None if its place was left out."""
    times: int = 1
    """How often it has failed; in ``loader.failures`` in all epochs."""


def describe_failures(
    failures: Sequence[SampleFailure], count: int, media: str, remedy: str, *, which: str = "of a batch"
) -> str:
    lines = [f"{len(failures)} of {count} {media} {which} could not be loaded"]
    for each in failures[:_SHOWN]:
        name = "" if each.path is None else f", {each.path!r}"
        lines.append(f"  sample {each.index}{name}: {each.reason}")
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "\n".join([*lines, remedy] if remedy else lines)


def transform_batch(function: Callable[[Any], Any] | None, batch: Any, what: str) -> Any:
    if function is None:
        return batch
    with UserCode(f"applying `batch_transform` to {what}"):
        result = function(batch)
    if result is None:
        raise TypeError(f"`batch_transform` returned None for {what}: it must return a batch.")
    return result


_MOST_LISTED = 1000


class FailureRecord(NamedTuple):
    """How often samples have failed, and which: the last 1,000. It never changes, so it can be read at any moment."""

    count: int = 0  # type: ignore[assignment]  # Shadows tuple.count, which a record does not need.
    """How often one has failed, each time counted."""
    last: tuple[SampleFailure, ...] = ()
    """An entry for each sample, in the order in which they failed first: what is known of the last time."""

    def add(self, failures: Iterable[SampleFailure]) -> FailureRecord:
        count, entries = self.count, {each.index: each for each in self.last}
        for failure in failures:
            count += failure.times
            before = entries.get(failure.index)
            entries[failure.index] = failure if before is None else failure._replace(times=before.times + failure.times)
        return FailureRecord(count, tuple(entries.values())[-_MOST_LISTED:])

    def pack(self) -> dict[str, Any]:
        return {"count": self.count, "last": [list(failure) for failure in self.last]}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> FailureRecord:
        return cls(packed["count"], tuple(SampleFailure(*each) for each in packed["last"]))


class UserCode:
    """A context in which user code is called, such as for "looking up sample 3", or what a function then says.

    An exception passes with a note. StopIteration becomes a RuntimeError: it would end the consumer's loop as if there
    were no more.
    """

    __slots__ = ("_doing",)

    def __init__(self, doing: str | Callable[[], str]) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        doing = self._doing() if error is not None and callable(self._doing) else self._doing
        if kind is not None and issubclass(kind, StopIteration):
            raise RuntimeError(
                f"StopIteration was raised while spdl.dataloader was {doing}, which would end the loop early and "
                "in silence. Raise IndexError or another exception."
            ) from error
        if isinstance(error, Exception):
            error.add_note(f"spdl.dataloader was {doing}")


_LOGGED = 10

_LOG = logging.getLogger("spdl.dataloader")


class LoaderLog:
    """Keeps what has failed in a loader, and logs it: the first samples once each, then ever fewer failures."""

    def __init__(self, loader: str) -> None:
        self._loader = loader
        # It is replaced in one assignment: a signal handler sees it with all failures of a batch, or with none.
        self._record = FailureRecord()

    @property
    def record(self) -> FailureRecord:
        return self._record

    def note(self, failures: Sequence[SampleFailure], world: World) -> None:
        loader = f"{self._loader}, rank {world.rank}" if world.size > 1 else self._loader
        known = {each.index for each in self._record.last}
        first = self._record.count + 1
        self._record = self._record.add(failures)
        for number, failure in enumerate(failures, first):
            # One that fails in each epoch must not hide others that come later.
            is_new = failure.index not in known and len(known) < _LOGGED
            known.add(failure.index)
            if is_new or (number > _LOGGED and not number & (number - 1)):
                instead = "left out" if failure.replacement is None else f"replaced by sample {failure.replacement}"
                name = "" if failure.path is None else f", {failure.path!r},"
                text = "%s, failure %d: sample %d%s was %s: %s"
                _LOG.warning(text, loader, number, failure.index, name, instead, failure.reason)

    def take_over(self, record: FailureRecord) -> None:
        self._record = record
