"""The epochs of a loader that runs a pipeline for each, and its state."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, NoReturn, Self, TypeAlias, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._sealed import check_state, refuse_state, sealed
from spdl.pipeline import Pipeline, PipelineStatistics
from spdl.pipeline._engine.checkpoint import check_ranks, source_state
from spdl.pipeline._for_loaders import (
    acknowledge,
    begin_at,
    changes_counts,
    fingerprint_of,
    has_changed_counts,
    is_parents,
)
from spdl.pipeline._state.format import compare_fingerprints, ranks_of
from spdl.pipeline._state.passes import can_merge, has_another_share, has_state, state_of_next_pass

_PARTS = {"batch_sampler", "collate_fn", "dataset", "sampler"}


def missing_attribute(loader: object, name: str) -> AttributeError:
    """Return the error for an attribute that a loader does not have.

    Libraries take PyTorch's loader apart by these names, to make another one of the parts. From our parts they
    would make a loader that decodes nothing, so it is better that they find none.
    """
    message = f"{type(loader).__name__} has no attribute {name!r}"
    if name in _PARTS:
        message += (
            ": it cannot be taken apart and put together again as PyTorch's. It shares an epoch among ranks by itself, "
            "and load_state_dict() continues in the middle of one, in place of skipping batches. If a library must "
            "replace the sampler, use PyTorchDataLoader."
        )
    return AttributeError(message, name=name, obj=loader)


Output = TypeVar("Output")
T = TypeVar("T")


def refuse_while_read(loader: str) -> NoReturn:
    raise RuntimeError(
        f"An iterator over this {loader} was read, and has not come to its end, which is a read after the last batch: "
        "it would read the rest of its epoch, whatever state is loaded. Load the state before the first read, or end "
        "that iterator: leave its loop, call its `close()`, or drop it."
    )


Read: TypeAlias = tuple[Pipeline[Any], Any, Any]
"""The pipeline, the root of an item that is not acknowledged yet, and the item."""


def reads(read: Callable[[], T]) -> Generator[T | TimeoutError, None, None]:
    """Yield what each read returns, and each TimeoutError, which would end the generator if it left it."""
    # The loop may drop its batch, which this frame must not hold until there is another.
    held: list[T | TimeoutError] = []
    while True:
        try:
            held.append(read())
        except StopIteration:
            return
        except TimeoutError as error:
            held.append(error)
        yield held.pop()


class LoaderIterator(Generic[Output]):
    """An iterator over one pass, which is closed when this object is dropped.

    After a TimeoutError the next read continues.
    """

    def __init__(self, passed: Generator[Read | TimeoutError, None, None]) -> None:
        self._passed = passed
        self._pipeline: Pipeline[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Output:
        read = next(self._passed)
        if isinstance(read, TimeoutError):
            try:
                raise read
            finally:
                # Its frames hold it.
                del read
        self._pipeline, root, received = read
        # Not before: a signal handler may come between, and the loop does not have the item yet.
        notes, key = acknowledge(self._pipeline, root)
        del notes[key]
        item: Output = received
        return item

    def close(self) -> None:
        self._passed.close()


_KIND = "dataloader"


class Epochs:
    """The epochs of one loader: which one is next, how far the one under way is, and where to continue.

    The loader tells it when the pipeline of an epoch begins, when it is read, and when it ends or is left.
    """

    def __init__(self) -> None:
        # The number of the next epoch, and the state from which to continue in it.
        self._following = 0
        self._loaded: dict[str, Any] | None = None
        self._resumed = False
        # The epochs of the pipelines that have begun and not ended. There are several if iterators overlap.
        self._running: dict[Pipeline[Any], int] = {}
        # That of them which was read last, with its epoch, until it ends; then what is left of it. A state may be taken
        # in another thread or a signal handler, so this changes in one step, and before anything that it stands for.
        self._read: tuple[Pipeline[Any], int] | None = None
        self._left: dict[str, Any] | None = None
        # The stage of the last epoch that has changed how many items there are, if one has.
        self._uneven: str | None = None
        self._statistics: PipelineStatistics | None = None

    def begin(self, pipeline: Pipeline[Any]) -> None:
        epoch = self._following
        begin_at(pipeline, epoch, resumed=self._resumed)
        if self._loaded is not None:
            pipeline.load_state_dict(self._loaded)
        self._running[pipeline] = epoch
        self._read = pipeline, epoch
        self._loaded = self._left = None
        self._resumed = False
        self._following = epoch + 1

    def read(self, pipeline: Pipeline[Any]) -> None:
        """Note that a pipeline is read: the state describes the one that was read last."""
        if self._is_read(pipeline):
            return
        if self._resumed:
            raise RuntimeError(
                "A state was loaded after this iterator was begun, so it ends here, and the next iteration over the "
                "DataLoader continues from the state."
            )
        self._read = pipeline, self._running[pipeline]
        self._left = None

    def _is_read(self, pipeline: Pipeline[Any]) -> bool:
        return self._read is not None and self._read[0] is pipeline

    def end(self, pipeline: Pipeline[Any]) -> None:
        del self._running[pipeline]
        self._uneven = has_changed_counts(pipeline) or self._uneven
        if self._is_read(pipeline):
            self._statistics = pipeline.statistics()
            self._read = None

    def leave(self, pipeline: Pipeline[Any]) -> None:
        """Note that an epoch was left, if it has not ended. It can still be gone on with, until the next one begins."""
        epoch = self._running.get(pipeline)
        if epoch is not None:
            if self._is_read(pipeline):
                self._left = self._state(epoch, pipeline=pipeline.state_dict())
            self.end(pipeline)

    def statistics(self, build: Callable[[], Pipeline[Any]]) -> PipelineStatistics:
        """Return the statistics of the epoch under way, or else of the last one, or of a pipeline that did nothing."""
        if (read := self._read) is not None:
            return read[0].statistics()
        return build().statistics() if self._statistics is None else self._statistics

    def state_dict(self, source: Any) -> dict[str, Any]:
        read = self._read
        if read is not None:
            pipeline, epoch = read
            return self._state(epoch, pipeline=pipeline.state_dict())
        following, left, loaded = self._following, self._left, self._loaded
        if left is not None:
            state = left
        elif loaded is not None:
            state = self._state(following, pipeline=loaded)
        else:
            parts = {"source": state_of_next_pass(source), "uneven": self._uneven}
            state = self._state(following, **{name: part for name, part in parts.items() if part is not None})
        # Another thread may have begun an epoch in the meantime.
        return state if self._read is None else self.state_dict(source)

    def _state(self, epoch: int, **parts: Any) -> dict[str, Any]:
        return sealed(_KIND, {"epoch": epoch, **parts})

    def load_state_dict(self, state: dict[str, Any], source: Any, build: Callable[[], Pipeline[Any]]) -> None:
        """Continue the next epoch from a saved state, which a pipeline that `build` makes checks."""
        check_state("state", state, _KIND)
        if self._read is not None and not is_parents(self._read[0]):
            refuse_while_read("DataLoader")
        if ranks := ranks_of("state", state, _KIND):
            self._load_ranks(ranks, source, build)
            return
        epoch, pipeline = state["epoch"], state.get("pipeline")
        if pipeline is not None:
            (checked := build()).load_state_dict(pipeline)
            if can_merge(source):
                # The state may be of another rank: what is asked for next is this rank's.
                pipeline = checked.state_dict()
        elif (before := state.get("source")) is not None and has_state(source):
            self._load_source(before, source, state.get("uneven"), build, begun=epoch > 0)
        self._uneven = state.get("uneven")
        self._following = epoch
        self._resumed = True
        self._loaded = pipeline
        self._read = self._left = None

    def _load_source(
        self, before: Any, source: Any, uneven: str | None, build: Callable[[], Pipeline[Any]], *, begun: bool
    ) -> None:
        own = source.state_dict()
        try:
            if has_another_share(source, before) and begun:
                check_ranks(source, before, uneven or changes_counts(build()))
        except ValueError as error:
            source.load_state_dict(own)
            refuse_state("state", f"cannot be loaded: {error}")
        source.load_state_dict(before)

    def _load_ranks(self, ranks: list[dict[str, Any]], source: Any, build: Callable[[], Pipeline[Any]]) -> None:
        if not can_merge(source):
            refuse_state("state", "is of several ranks, and only an EpochSampler as `src` can share it again")
        states = []
        for rank in ranks:
            pipeline = rank.get("pipeline")
            if pipeline is None:
                states.append(rank.get("source"))
                continue
            check_state("state", pipeline, "pipeline")
            compare_fingerprints(pipeline.get("fingerprint"), fingerprint_of(build()))
            try:
                states.append(source_state(pipeline, source))
            except ValueError as error:
                refuse_state("state", f"cannot be loaded: {error}")
        source.load_state_dict(source.merge_states(states))
        self._following = min(rank["epoch"] for rank in ranks)
        self._resumed = True
        self._loaded = self._read = self._left = None
