"""One epoch of a loader: its steps on one rank, and what its loop has received."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spdl._ranges import Ranges
from spdl.dataloader._epochs import reads
from spdl.dataloader._loader.failures import LoaderLog, SampleFailure, describe_failures
from spdl.dataloader._loader.loader_state import Cursor, LoaderProgress, World
from spdl.io import LoadError
from spdl.pipeline import Pipeline, PipelineFailure
from spdl.source import EpochOrder
from spdl.source._shared import EMPTY, Plan, Sharing


class EpochStep(NamedTuple):
    indices: NDArray[np.int64]
    """The samples."""
    positions: NDArray[np.int64]
    """Their places in the epoch's order."""
    end: int
    """How many places of the epoch's order all ranks have taken after this step."""


# So many places of an order are looked up at once, and fewer at first: a call for each batch would cost ten times as
# much, and the first batch should not wait for many.
TAKEN = 4096
_FIRST_TAKEN = 32


class Steps:
    """The steps of an epoch, as far as they are known before they are made."""

    def __init__(self, world: World, sharing: Sharing) -> None:
        self.world = world
        self.sharing = sharing

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly none."""
        return False

    @property
    def is_single(self) -> bool:
        """Whether there is certainly just one."""
        return False

    @property
    def ends_early(self) -> bool:
        """Whether other ranks have one more."""
        return False

    def advance(self, before: Cursor, result: Cursor) -> Cursor:  # noqa: ARG002 - for those that count.
        """Return the cursor after a step, from the one before it and what its result says."""
        return result

    def between_epochs(self, cursor: Cursor) -> Cursor:
        """Return the cursor at the beginning of the next epoch, from the one at the end of this one."""
        return cursor


class EpochSteps(Steps):
    """The steps of an epoch from a place in its order on, shared among ranks as `spdl.source.EpochSampler` does.

    In each step all ranks together take the next ``world.size * batch_size`` places, one block for each rank. So one
    number says what is left, whatever the number of ranks and the size of the batches are from then on.
    """

    def __init__(self, order: EpochOrder, world: World, sharing: Sharing, start: int = 0) -> None:
        super().__init__(world, sharing)
        self._order = order
        self._batch_size = sharing.batch_size
        self._start = start
        self._size = len(order)
        self._plan = Plan(self._size, Ranges([(0, start)]) if start else EMPTY, sharing)

    def check(self, called: str) -> None:
        """Raise a ValueError if `drop_last` leaves nothing of a whole epoch. Messages call its samples as given."""
        if not self.most and not self._start:
            ranks = self.world.size
            together = f"{self._batch_size} on each of {ranks} ranks" if ranks > 1 else str(self._batch_size)
            raise ValueError(
                f"`drop_last=True` would leave out everything: an epoch has {self._size} {called}, and a step takes "
                f"{together}. Choose a smaller `batch_size` or `drop_last=False`."
            )

    @property
    def most(self) -> int:
        return self._plan.steps

    @property
    def is_empty(self) -> bool:
        return not len(self)

    @property
    def is_single(self) -> bool:
        return len(self) == 1

    @property
    def ends_early(self) -> bool:
        return len(self) < self.most

    def __len__(self) -> int:
        full, rest = divmod(self._plan.count(self.world.rank), self._batch_size)
        return full + bool(rest)

    def read(self, epoch: int) -> Iterator[EpochStep]:
        size, together = self._batch_size, self._batch_size * self.world.size
        count = self._plan.count(self.world.rank)
        begin, most = 0, _FIRST_TAKEN
        while begin < len(self):
            stop = min(begin + max(1, most // size), len(self))
            turns = np.arange(begin * size, min(stop * size, count), dtype=np.int64)
            positions = self._plan.positions(self.world.rank, turns)
            indices = _checked(self._order.take(epoch, positions), positions.size, self._order)
            for number in range(begin, stop):
                here = slice((number - begin) * size, (number - begin + 1) * size)
                last = number == self.most - 1
                end = self._size if last else self._start + (number + 1) * together
                # Copies, since a batch may be kept, and would keep all of the others.
                yield EpochStep(indices[here].astype(np.int64), positions[here].copy(), end)
            begin, most = stop, min(2 * most, TAKEN)


def _checked(indices: Any, count: int, order: EpochOrder) -> NDArray[np.int64]:
    """A negative position would be counted from the source's end."""
    found = np.asarray(indices)
    if found.shape != (count,) or found.dtype.kind not in "iu":
        raise TypeError(
            f"`take` of the order {order.fingerprint!r} must return {count} integers for {count} positions, got "
            f"{found.dtype} in the shape {found.shape}."
        )
    if found.min() < 0:
        raise IndexError(f"`take` of the order {order.fingerprint!r} returned the negative position {found.min()}.")
    return found


Batch = TypeVar("Batch")


class StepResult(NamedTuple):
    """The result of a step: a batch, an exception to raise, or neither if all of its samples were left out."""

    end: int
    """How many places of the epoch's order all ranks have taken after the step."""
    batch: Any = None
    error: Exception | None = None
    failures: tuple[SampleFailure, ...] = ()
    cursor: Cursor = None
    is_step: bool = True
    """Whether the ranks take a step here; else it has no batch on any of them."""


class Epoch:
    """How far a loader is in an epoch: its iterator writes it, and the loader reads it.

    A `loaded` one continues from a state, which no iterator has taken up yet.
    """

    def __init__(self, progress: LoaderProgress, *, loaded: bool = False) -> None:
        self.progress = progress
        self.loaded = loaded
        self.ended = False


class _Begun(NamedTuple):
    steps: Steps
    epoch: Epoch
    results: Generator[StepResult | TimeoutError, None, None]


class EpochIterator(Generic[Batch]):
    """An iterator over the batches of one epoch. After a TimeoutError the next read goes on.

    `begin` returns the pipeline that makes a `StepResult` of each step, the steps, and the record of received batches.
    The first read calls it, so an iterator that is never read, as `tqdm.auto` makes one, uses up no epoch.
    """

    def __init__(
        self,
        begin: Callable[[], tuple[Pipeline[StepResult], Steps, Epoch]],
        begin_read: Callable[[EpochIterator[Any], Epoch], None],
        log: LoaderLog,
        *,
        timeout: float | None,
        media: str,
    ) -> None:
        self._begin = begin
        self._begun: _Begun | None = None
        self._begin_read = begin_read
        self._log = log
        self._timeout = timeout
        self._media = media
        self._received = 0
        self._ended = False
        self._reason = ""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        if self._ended:
            self.close()
            raise StopIteration
        steps, epoch, results = self._start() if self._begun is None else self._begun
        self._begin_read(self, epoch)
        number = epoch.progress.epoch
        while (read := next(results, None)) is not None:
            result = self._check(read, steps) if isinstance(read, StepResult) else read
            if isinstance(result, Exception):
                # A loading error ends the epoch at once: the next batch would not be the missing one.
                self._ended = result is not read
                try:
                    raise result
                finally:
                    # Its frames hold it.
                    del read, result
            before = epoch.progress
            cursor = steps.advance(before.cursor, result.cursor)
            batch: Batch | None = result.batch
            ahead = before.ahead if before.position else None
            if batch is None and result.is_step and steps.world.size > 1:
                ahead = steps.world
            progress = LoaderProgress(
                number, result.end, begun=True, failures=self._log.record, cursor=cursor, ahead=ahead
            )
            if batch is not None:
                self._received += 1
                # Nothing may come between these two, not even a call: a signal handler could.
                epoch.progress = progress
                return batch
            epoch.progress = progress
        self._ended = True
        world = steps.world
        # If ranks do not wait for each other, one may have a batch or less, and that by chance broken.
        may_be_chance = world.size > 1 and not steps.sharing.even_batches and steps.is_single
        if not self._received and not steps.is_empty and not may_be_chance:
            part = f" that rank {world.rank} of {world.size} takes" if world.size > 1 else ""
            raise LoadError(f"All {self._media} of epoch {number}{part} failed.{self._reason}")
        ahead = world if steps.ends_early else epoch.progress.ahead
        kept = steps.between_epochs(epoch.progress.cursor)
        epoch.progress = LoaderProgress(number + 1, failures=self._log.record, cursor=kept, ahead=ahead)
        epoch.ended = True
        raise StopIteration

    def is_under_way(self) -> bool:
        return self._begun is not None and not self._ended

    def close(self) -> None:
        self._ended = True
        if self._begun is not None:
            self._begun.results.close()

    def _start(self) -> _Begun:
        pipeline, steps, epoch = self._begin()
        # If an epoch goes on, an earlier loop has received some.
        self._received = epoch.progress.position
        self._begun = begun = _Begun(steps, epoch, _read(pipeline, steps, self._timeout))
        return begun

    def _check(self, result: StepResult, steps: Steps) -> StepResult | Exception:
        if result.failures:
            self._reason = f" The last reason: {result.failures[-1].reason}"
            self._log.note(result.failures, steps.world)
        if result.error is not None:
            return result.error
        if result.batch is None and result.is_step and steps.world.size > 1 and steps.sharing.even_batches:
            remedy = (
                "So this rank would have one batch less than the others, which would wait for it. Pass "
                'on_error="refill", with which all ranks have equally many, or even_batches=False if none waits for '
                "another, as in validation."
            )
            return LoadError(describe_failures(result.failures, len(result.failures), self._media, remedy))
        return result


# No method: a generator that held the iterator would keep it, and so its threads, until the collector runs.
def _read(
    pipeline: Pipeline[StepResult], steps: Steps, timeout: float | None
) -> Generator[StepResult | TimeoutError, None, None]:
    if steps.is_empty:
        # A state may be of the end of an epoch.
        return
    try:
        with pipeline.auto_stop():
            yield from reads(pipeline.get_iterator(timeout=timeout).__next__)
    except PipelineFailure as failure:
        # The order has failed: the errors of all else are results.
        raise (failure.exceptions[0] if len(failure.exceptions) == 1 else failure) from None
