"""The common part of the loaders of labelled media: ranks, epochs, state and the pipeline, but not reading."""

from __future__ import annotations

import abc
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args

from spdl._check import check_choice, check_flag, check_int, check_number, positive, refuse
from spdl.dataloader._dataloader import TransferThread
from spdl.dataloader._epochs import missing_attribute, refuse_while_read
from spdl.dataloader._media.batch_maker import BatchMaker, OnError, OutputKind, check_device, send
from spdl.dataloader._media.batches import LabelledBatch, LoaderLog, SampleFailure
from spdl.dataloader._media.loader_state import (
    Identity,
    LoaderProgress,
    default_threads,
    find_world,
    fingerprint_of,
    may_find_world,
    read_state,
    write_state,
)
from spdl.dataloader._media.media_iterator import Epoch, EpochStep, EpochSteps, MediaIterator, StepResult
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStatistics
from spdl.pipeline._for_loaders import tell_arguments
from spdl.pipeline._report.page import LoaderArguments, StageArguments
from spdl.source import EpochOrder, SequentialOrder, ShuffledOrder
from spdl.source._shared import warn_of_idle_rank

# So many batches are made at once, at the most: with more, memory would grow with the number of cores.
BATCHES_AT_ONCE = 4

_TRANSFER = StageArguments(
    unit="batch",
    otherwise=(
        "One thread copies to the device, which no argument changes: have it copy less, such as pictures of "
        '`dtype="uint8"` that the device normalises.'
    ),
)


def arguments_of(loader: str, threads: int, *, transfers: bool) -> LoaderArguments:
    """Return what a user may change.

    Args:
        loader: The loader's class.
        threads: Its threads.
        transfers: Whether it copies to a device.
    """
    load = StageArguments(
        unit="batch",
        several="num_threads",
        value=threads,
        most=BATCHES_AT_ONCE,
        otherwise=(
            "Threads share the media of a batch and nothing else of it. Its samples are looked up one after the other, "
            "but all at once by a source with `__getitems__`; `transform` and `batch_transform` run in one thread for "
            "each batch."
        ),
        in_place_of_processes=(
            "`PyTorchDataLoader` has an argument for that. Here `augment`, or the loader's options in place of "
            "`transform`, run in native code without the GIL, and `batch_transform` is called once for a whole batch."
        ),
    )
    return LoaderArguments(
        loader,
        (load, _TRANSFER) if transfers else (load,),
        source="Nothing but `order` runs there: have its `take()` do less.",
    )


class MediaReader(abc.ABC):
    """Reads the media of the samples of a batch. Several threads call it at once."""

    media: ClassVar[str]
    """What messages call the media."""
    batch_type: ClassVar[type[LabelledBatch]]
    """The class of batches."""
    column: ClassVar[str] = "media"
    """The field of samples that holds what is read."""

    @abc.abstractmethod
    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load the media of some samples.

        Args:
            columns: The fields of the samples by their names.
            epoch: The number of the epoch.
            num_threads: How many threads may share the work.

        Returns:
            New numpy arrays by the names of their fields, with a place for each sample; and the places and reasons of
            failures, which hold zeros.

        Raises:
            LoadError: If all fail, and the shapes of their arrays are not known.
        """

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:  # noqa: ARG002 - for those that do.
        """Return why a sample makes no sense, so that `read` cannot be asked for it; None if it does.

        Args:
            columns: The fields of the samples by their names.
            place: The sample's place in them.
        """
        return None

    def convert(
        self,
        results: list[Any],
        fields: dict[str, Any],  # noqa: ARG002 - for those that do.
        names: Sequence[str],  # noqa: ARG002
        num_threads: int,  # noqa: ARG002
    ) -> Any:
        """Return what a `transform` returned in the format of batches.

        Args:
            results: The transform's results, one for each sample.
            fields: The other fields of the batch.
            names: The names of the samples in messages.
            num_threads: How many threads may share the work.

        Raises:
            TypeError, ValueError: If a result cannot get that format.
        """
        return results

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:  # noqa: ARG002 - for those that do.
        """Change the fields of a whole batch, which are numpy arrays and lists."""
        return fields


Batch = TypeVar("Batch")

_MAX_THREADS = 1024
_LARGEST = (1 << 64) - 1
_TIMEOUT = "a number of seconds above 0, or None"


class MediaLoader(Generic[Batch]):
    """The base of `ImageLoader` and its relatives, which document the arguments."""

    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        reader: MediaReader,
        *,
        shuffle: bool,
        order: EpochOrder | None,
        seed: int,
        drop_last: bool,
        even_batches: bool,
        rank: int | None,
        world_size: int | None,
        on_error: OnError,
        transform: Callable[..., Any] | None,
        batch_transform: Callable[[Any], Any] | None,
        output: OutputKind,
        device: Any,
        num_threads: int | None,
        prefetch: int,
        timeout: float | None,
    ) -> None:
        self.dataset = source
        self.batch_size = positive("batch_size", batch_size)
        self.drop_last = check_flag("drop_last", drop_last)
        self._even_batches = check_flag("even_batches", even_batches)
        size = _count(source)
        self._seed = check_int("seed", seed, least=0, most=_LARGEST)
        self._order = _make_order(size, order, shuffle=check_flag("shuffle", shuffle), seed=self._seed)
        if (rank, world_size) != (None, None):
            find_world(rank, world_size)
        self._place = rank, world_size
        check_choice("on_error", on_error, get_args(OnError))
        for name, function in (("transform", transform), ("batch_transform", batch_transform)):
            if not (function is None or callable(function)):
                refuse(TypeError, name, "a function, or None", function)
        check_choice("output", output, get_args(OutputKind))
        self._device = check_device(device, output)
        self._num_threads = (
            None if num_threads is None else check_int("num_threads", num_threads, least=1, most=_MAX_THREADS)
        )
        self._prefetch = positive("prefetch", prefetch)
        self._timeout = None if timeout is None else check_number("timeout", timeout, _TIMEOUT)
        if self._timeout is not None and self._timeout <= 0:
            refuse(ValueError, "timeout", _TIMEOUT, timeout, "No batch could come in time.")
        self._media = reader.media
        self._maker = BatchMaker(
            source,
            reader,
            order=order,
            seed=self._seed,
            on_error=on_error,
            transform=transform,
            batch_transform=batch_transform,
            output=output,
        )
        # The epoch that the next loop follows, or begins.
        self._current = Epoch(LoaderProgress())
        # The epoch of the state, and the iterator that was read last.
        self._told = self._current
        self._read: weakref.ref[MediaIterator[Batch]] | None = None
        self._pipeline: Pipeline[Any] | None = None
        self._fingerprint: str | None = None
        self._log = LoaderLog(type(self).__name__)
        # One for each process: a forked child inherits the executor without its thread.
        self._transfer_threads: dict[int, TransferThread] = {}
        if (rank, world_size) != (None, None) or may_find_world():
            self._make_steps(0)

    @property
    def epoch(self) -> int:
        """The number of the epoch that a loop reads now, or that the next loop begins."""
        return self._progress().epoch

    @property
    def rank(self) -> int:
        """The rank whose part this loader loads."""
        return find_world(*self._place).rank

    @property
    def world_size(self) -> int:
        """The number of ranks that share the source."""
        return find_world(*self._place).size

    @property
    def failures(self) -> list[SampleFailure]:
        """The samples of the batches received so far that failed, each once, at most the 1,000 last ones.

        They are in the order in which they failed first. An entry describes the last failure, and how many
        ``times`` the sample has failed in all epochs. After `load_state_dict` the failures of the saved run are there
        too.
        """
        return list(self._log.record.last)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}: {len(self._order):,} samples of {type(self.dataset).__name__} "
            f"in batches of {self.batch_size}, epoch {self.epoch}"
        )

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch. All ranks have the same, unless ``even_batches=False``."""
        return len(self._make_steps(0))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next loop.

        A loader counts epochs by itself. After `load_state_dict`, a call with the restored epoch changes nothing, so
        the loop goes on in the middle of it.

        Args:
            epoch: The number of the epoch, at least 0.

        Raises:
            TypeError, ValueError: If it is not an int of at least 0.
        """
        epoch = check_int("epoch", epoch, least=0, most=_LARGEST)
        progress = self._current.progress
        if progress.begun or progress.epoch != epoch:
            self._current = self._told = Epoch(LoaderProgress(epoch, failures=self._log.record))

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader is: the epoch, how many of its samples all ranks have received, and what has failed.

        It is where the iterator is that was read last. A batch counts as received when the loop has got it. The state
        is a small dict that JSON can hold, and grows by some 300 bytes for each of the `failures`. Without these it is
        the same on all ranks after the same step. It may be restored with another number of ranks, batch size or number
        of threads. The call takes microseconds, and is allowed in a signal handler.

        Returns:
            A new dict.
        """
        return write_state(self._progress(), type(self).__name__, self._identity())

    def _progress(self) -> LoaderProgress:
        if self._told.ended and self._told is not self._current:
            # Another iterator has begun a later epoch.
            return self._following()._replace(failures=self._log.record)
        return self._told.progress

    def _following(self) -> LoaderProgress:
        progress = self._current.progress
        return LoaderProgress(progress.epoch + 1) if progress.begun else progress

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from the position of another loader: the next loop yields the rest of its epoch.

        The next loop is the next whose first batch is read, so it may be over an iterator that exists already.

        `failures` then include those from the saved run. A sample that fails again is replaced by the same one as in a
        run that was not interrupted.

        Args:
            state_dict: What `state_dict` returned, from any rank. With ``even_batches=False`` and ``on_error="skip"``,
                where batches may be missing, ranks are at different places: then give each its own.

        Raises:
            TypeError: If it is not a mapping.
            ValueError: If it is not a state of such a loader, was damaged, was written by a later version, or belongs
                to another dataset, seed or order; the message names both. Or if it is of another rank, which ended its
                epoch with a batch less than others.
            RuntimeError: If the iterator that was read last has not come to its end, which is a read after the last
                batch, and is still held: its loop goes on, or a variable keeps it. Its ``close()`` ends it.
        """
        progress = read_state(state_dict, type(self).__name__, self._identity())
        if progress.ended_by is not None and progress.ended_by != find_world(*self._place):
            rank, world_size = progress.ended_by
            raise ValueError(
                f"This state is from rank {rank} of {world_size} at the end of an epoch in which others have one "
                "batch more (even_batches=False), so it does not tell whether they have received it. Give each rank "
                "its own state, or that of a rank that has most batches."
            )
        read = None if self._read is None else self._read()
        if read is not None and read.is_under_way():
            refuse_while_read(type(self).__name__)
        self._current = self._told = Epoch(progress, loaded=True)
        self._log.take_over(progress.failures)

    def statistics(self) -> PipelineStatistics:
        """Return the counts and times of the stages in the loop that runs now, or ran last.

        ``statistics().bottleneck`` is a sentence that says whether loading or the training loop is the limit.

        Raises:
            RuntimeError: If no loop has begun yet.
        """
        if self._pipeline is None:
            raise RuntimeError(f"This {type(self).__name__} has no statistics before its first batch was read.")
        return self._pipeline.statistics()

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over an epoch: the one that was restored or chosen, or else the one after the last loop's.

        The epoch begins with the first read. An iterator that is never read uses up no epoch: some libraries make one
        and loop over another. The rest of an epoch begins again until something of it was received.

        Raises:
            LoadError: While iterating, if samples fail and ``on_error`` does not say otherwise.
            Exception: Exceptions of the transforms, with a note that names the sample; also the source's, except those
                that ``on_error`` is about.
            TypeError, ValueError: If a transform returns what ``mean``, ``std`` or ``dtype`` cannot follow.
            TimeoutError: If a batch takes longer than the loader's ``timeout``. The next read goes on.
        """
        return MediaIterator(self._begin, self._begin_read, self._log, timeout=self._timeout, media=self._media)

    def _begin(self) -> tuple[Pipeline[Any], EpochSteps, Epoch]:
        progress = self._following()
        steps = self._make_steps(progress.position)
        if not len(steps) and not progress.position:
            remedy = "Take fewer ranks, or leave `even_batches` True, with which it gets one that another rank has too."
            warn_of_idle_rank(*steps.world, len(self._order), "samples of an epoch", remedy)
        # The rest of an epoch is not lost if the first read of it fails.
        begun = progress.position == 0
        self._current = epoch = Epoch(progress._replace(begun=begun, failures=self._log.record))
        self._pipeline = pipeline = self._declare(steps, progress.epoch)
        return pipeline, steps, epoch

    def _begin_read(self, iterator: MediaIterator[Batch], epoch: Epoch) -> None:
        if epoch is not self._told:
            if self._current.loaded:
                raise RuntimeError(
                    f"A state was loaded after this iterator was begun. Iterate over the {type(self).__name__} again, "
                    "which goes on from the state."
                )
            self._told = epoch
        self._read = weakref.ref(iterator)

    if not TYPE_CHECKING:
        # Type checkers know what there is.
        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        # Running parts stay in this process.
        return {**self.__dict__, "_transfer_threads": {}, "_pipeline": None, "_read": None}

    def _make_steps(self, start: int) -> EpochSteps:
        world = find_world(*self._place)
        steps = EpochSteps(
            self._order,
            self.batch_size,
            world,
            drop_last=self.drop_last,
            even_batches=self._even_batches,
            start=start,
        )
        if not steps.most and not start:
            together = f"{self.batch_size} on each of {world.size} ranks" if world.size > 1 else str(self.batch_size)
            raise ValueError(
                f"`drop_last=True` would leave out everything: an epoch has {len(self._order)} samples, and a "
                f"step takes {together}. Choose a smaller `batch_size` or `drop_last=False`."
            )
        return steps

    def _identity(self) -> Identity:
        if self._fingerprint is None:
            own = getattr(self.dataset, "fingerprint", None)
            if type(self.dataset) in (list, tuple):
                self._fingerprint = fingerprint_of(self.dataset)
            else:
                self._fingerprint = str(own()) if callable(own) else self._name_source()
        order = self._order
        return Identity(self._fingerprint, order.fingerprint, len(order), self._seed)

    def _name_source(self) -> str:
        return f"{type(self.dataset).__name__}:{len(self.dataset)}"

    def _declare(self, steps: EpochSteps, epoch: int) -> Pipeline[Any]:
        threads = self._num_threads or default_threads()
        at_once = min(threads, BATCHES_AT_ONCE)
        share = -(-threads // at_once)
        maker = self._maker

        def load(step: EpochStep) -> StepResult:
            try:
                batch, failures = maker.make(step, epoch, share)
            except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
                return StepResult(step.end, error=error)
            return StepResult(step.end, batch, failures=failures)

        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        builder.add_source(steps.read(epoch)).pipe(load, name="load", concurrency=at_once, output_order="input")
        if self._device is not None:
            thread = self._transfer_threads.setdefault(os.getpid(), TransferThread())
            builder.pipe(_TransferBatch(self._device), name="transfer", executor=thread)
        pipeline = builder.add_sink(self._prefetch).build(num_threads=at_once)
        tell_arguments(pipeline, arguments_of(type(self).__name__, threads, transfers=self._device is not None))
        return pipeline


class _TransferBatch:
    """Copies the batch of a result to a device."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def __call__(self, result: StepResult) -> StepResult:
        if result.batch is None:
            return result
        try:
            return result._replace(batch=send(result.batch, self._device))
        except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
            return result._replace(batch=None, error=error)


def _make_order(size: int, order: EpochOrder | None, *, shuffle: bool, seed: int) -> EpochOrder:
    if order is None:
        return ShuffledOrder(size, seed=seed) if shuffle else SequentialOrder(size)
    # If a class is given instead of an order, the type has neither.
    has_all = all(hasattr(type(order), name) for name in ("take", "__len__"))
    if not has_all or not isinstance(getattr(order, "fingerprint", None), str):
        accepted = (
            "an `spdl.source.EpochOrder`, such as ShuffledOrder(len(source)), or None; an order has a length, a text "
            "`fingerprint`, and `take(epoch, positions)`, which returns an array of positions in the source"
        )
        remedy = "For chosen positions, the docs have such an order at `.select` of the page 'From WebDataset'."
        refuse(TypeError, "order", accepted, order, remedy if isinstance(order, Iterable) else "")
    if not len(order):
        refuse(ValueError, "order", "an order of at least one sample", order, "It chooses none.")
    if shuffle:
        refuse(ValueError, "shuffle", "False with an `order`, which says itself what is shuffled", shuffle)
    return order


def _count(source: Any) -> int:
    accepted = "a sequence of samples, with `len(source)` and `source[index]`"
    if isinstance(source, str | bytes) or not all(hasattr(type(source), name) for name in ("__len__", "__getitem__")):
        refuse(TypeError, "source", accepted, source)
    if isinstance(source, Mapping):
        refuse(TypeError, "source", accepted, source, "A mapping has keys, not positions.")
    size = len(source)
    if not size:
        refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
    return size
