"""The common part of ready-made loaders: ranks, epochs and state, but neither order nor reading."""

from __future__ import annotations

import abc
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args

from spdl._check import check_choice, check_flag, check_int, check_number, positive, refuse
from spdl.dataloader._dataloader import TransferThread
from spdl.dataloader._epochs import missing_attribute, refuse_while_read
from spdl.dataloader._loader.epoch_iterator import Epoch, EpochIterator, StepResult, Steps
from spdl.dataloader._loader.failures import LoaderLog, SampleFailure
from spdl.dataloader._loader.loader_state import (
    Cursor,
    Identity,
    LoaderProgress,
    World,
    continue_stage,
    default_threads,
    find_world,
    may_find_world,
    open_state,
    read_state,
    write_state,
)
from spdl.dataloader._loader.tensors import OutputKind, check_device, import_torch, send
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStatistics
from spdl.pipeline._for_loaders import tell_arguments
from spdl.pipeline._report.page import LoaderArguments, StageArguments
from spdl.source import MixedOrder
from spdl.source._shared import Sharing, say_difference

Batch = TypeVar("Batch")

_MAX_THREADS = 1024
LARGEST_SEED = (1 << 64) - 1
_NEXT_STAGE = " If the weights are to change, or corpora were added, make the mix with a higher `stage`."
_TIMEOUT = "a number of seconds above 0, or None"
_TRANSFER = StageArguments(
    unit="batch",
    otherwise=(
        "One thread copies to the device, which no argument changes: have it copy less, such as pictures of "
        '`dtype="uint8"` that the device normalises.'
    ),
)

SHARED = (
    *("seed", "drop_last", "even_batches", "rank", "world_size", "batch_transform"),
    *("output", "device", "num_threads", "prefetch", "timeout"),
)
"""The arguments that all loaders have. Each spells them out, since users look there."""


def pick(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return some of the arguments of a loader, whose local variables are given, to pass them on."""
    return {name: given[name] for name in names}


class EpochLoader(abc.ABC, Generic[Batch]):
    """Yields the batches of one rank, epoch after epoch, and can be cut and resumed after each.

    A loader adds the steps of an epoch and the stages that make a batch of each. The loaders document the arguments.
    """

    _order_follows_from: ClassVar[str] = ""
    """What other arguments the order follows from, for the error about a state of another order."""

    def __init__(
        self,
        batch_size: int,
        media: str,
        *,
        seed: int,
        drop_last: bool,
        even_batches: bool,
        rank: int | None,
        world_size: int | None,
        batch_transform: Callable[[Any], Any] | None,
        output: OutputKind,
        device: Any,
        num_threads: int | None,
        prefetch: int,
        timeout: float | None,
    ) -> None:
        self.batch_size = positive("batch_size", batch_size)
        self.drop_last = check_flag("drop_last", drop_last)
        self._even_batches = check_flag("even_batches", even_batches)
        self._media = media
        self._seed = check_int("seed", seed, least=0, most=LARGEST_SEED)
        if (rank, world_size) != (None, None):
            find_world(rank, world_size)
        self._place = rank, world_size
        check_function("batch_transform", batch_transform)
        check_choice("output", output, get_args(OutputKind))
        self._output = output
        self._device = check_device(device, output)
        self._num_threads = (
            None if num_threads is None else check_int("num_threads", num_threads, least=1, most=_MAX_THREADS)
        )
        self._prefetch = positive("prefetch", prefetch)
        self._timeout = None if timeout is None else check_number("timeout", timeout, _TIMEOUT)
        if self._timeout is not None and self._timeout <= 0:
            refuse(ValueError, "timeout", _TIMEOUT, timeout, "No batch could come in time.")
        # The epoch that the next loop follows, or begins.
        self._current = Epoch(LoaderProgress())
        # The epoch of the state, and the iterator that was read last.
        self._told = self._current
        self._read: weakref.ref[EpochIterator[Batch]] | None = None
        self._pipeline: Pipeline[Any] | None = None
        self._log = LoaderLog(type(self).__name__)
        # One for each process: a forked child inherits the executor without its thread.
        self._transfer_threads: dict[int, TransferThread] = {}

    @abc.abstractmethod
    def _make_steps(self, progress: LoaderProgress) -> Steps:
        """Return the steps of what is left of an epoch."""

    @abc.abstractmethod
    def _make_identity(self) -> Identity:
        """What a state must have been saved with."""

    @property
    def _mix(self) -> MixedOrder | None:
        """The mix that the position of a state is in; None if it is in another order, or counts something else."""
        return None

    def _continue_with(self, mix: MixedOrder) -> None:
        """Take a mix in place of `_mix` that differs from it in what was drawn before."""

    @abc.abstractmethod
    def _declare(self, steps: Any, progress: LoaderProgress) -> Pipeline[StepResult]:
        """Return a pipeline that makes a result of each step."""

    def _share(self) -> tuple[World, Sharing]:
        world = find_world(*self._place)
        return world, Sharing(world.size, self.batch_size, self.drop_last, self._even_batches)

    def _check_early(self) -> None:
        """Make the steps of an epoch where the ranks are known already, so that mistakes show when a loader is made."""
        if self._place != (None, None) or may_find_world():
            self._make_steps(LoaderProgress())

    def _warn_if_idle(self, steps: Any) -> None:
        """Warn if this rank has no steps in a whole epoch."""

    def _finish(
        self, builder: PipelineBuilder[Any, Any], threads: int, stages: Sequence[StageArguments], source: str
    ) -> Pipeline[StepResult]:
        """Build a pipeline that also moves batches to the device. Its verdicts say of the source what is given."""
        if self._device is not None:
            thread = self._transfer_threads.setdefault(os.getpid(), TransferThread())
            builder.pipe(partial(_transfer, self._device), name="transfer", executor=thread)
            stages = (*stages, _TRANSFER)
        pipeline = builder.add_sink(self._prefetch).build(num_threads=threads)
        tell_arguments(pipeline, LoaderArguments(type(self).__name__, tuple(stages), source=source))
        return pipeline

    def _threads(self) -> int:
        return self._num_threads or default_threads()

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

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next loop.

        A loader counts epochs by itself. After `load_state_dict`, a call with the restored epoch changes nothing, so
        the loop goes on in the middle of it.

        Args:
            epoch: The number of the epoch, at least 0.

        Raises:
            TypeError, ValueError: If it is not an int of at least 0.
        """
        epoch = check_int("epoch", epoch, least=0, most=LARGEST_SEED)
        progress = self._current.progress
        if progress.begun or progress.epoch != epoch:
            self._current = self._told = Epoch(LoaderProgress(epoch, failures=self._log.record))

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader is: the epoch, how many of its samples all ranks have received, and what has failed.

        It is where the iterator is that was read last. A batch counts as received when the loop has got it. The state
        is a small dict that JSON can hold, and grows by some 300 bytes for each of the `failures`. Apart from these and
        the checksum it is the same on all ranks after the same step, unless one lacks a batch (``even_batches=False``).
        It may be restored with another number of ranks, batch size or number of threads. The call takes microseconds,
        and is allowed in a signal handler.

        Returns:
            A new dict.
        """
        return write_state(self._progress(), type(self).__name__, self._make_identity(), self._mix)

    def _progress(self) -> LoaderProgress:
        if self._told.ended and self._told is not self._current:
            # Another iterator has begun a later epoch.
            return self._following()._replace(failures=self._log.record)
        return self._told.progress

    def _following(self) -> LoaderProgress:
        progress = self._current.progress
        if not progress.begun:
            return progress
        # That epoch was left early.
        return LoaderProgress(progress.epoch + 1, cursor=self._leave(progress.cursor))

    def _leave(self, cursor: Cursor) -> Cursor:  # noqa: ARG002 - for those that count.
        """Return the cursor at the beginning of the next epoch, from the one where an epoch was left."""
        return None

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from the position of another loader: the next loop yields the rest of its epoch.

        The next loop is the next whose first batch is read, so it may be over an iterator that exists already.

        `failures` then include those from the saved run. A sample that fails again is replaced by the same one as in a
        run that was not interrupted.

        Args:
            state_dict: What `state_dict` returned, from any rank. With ``even_batches=False`` and ``on_error="skip"``,
                where batches may be missing, ranks are at different places: then give each its own. A state of
                another rank is refused once a batch of that rank was missing; if only others lack one, they would
                receive samples twice. If the order is a
                stage of a `spdl.source.MixedOrder`, a state of an earlier stage will do: the next loop is then over
                epoch 0 of this stage, and the corpora continue after what was drawn. (Not `TableLoader`.)

        Raises:
            TypeError: If it is not a mapping.
            ValueError: If it is not a state of such a loader, was damaged, was written by a later version, or belongs
                to another dataset, seed or order; the message names both. Or if it is of another rank, which has had
                fewer batches than others.
            RuntimeError: If the iterator that was read last has not come to its end, which is a read after the last
                batch, and is still held: its loop goes on, or a variable keeps it. Its ``close()`` ends it.
        """
        kind, identity, mix = type(self).__name__, self._make_identity(), self._mix
        state = open_state(state_dict, kind)
        remedy = self._order_follows_from
        if mix is not None:
            remedy += _NEXT_STAGE
            if "mix" in state:
                mix, state, identity = continue_stage(mix, state, identity, self._leave)
                if state["order"] != identity.order:
                    remedy += say_difference(mix, state["mix"])
        progress = read_state(state, kind, identity, remedy)
        if progress.ahead is not None and progress.ahead != find_world(*self._place):
            rank, world_size = progress.ahead
            raise ValueError(
                f"This state is from rank {rank} of {world_size}, which may have had fewer batches than others: with "
                "even_batches=False a rank may get none in the last step, and none if all samples of one fail. So the "
                "state does not say what the others have received. Give each rank its own state, or one of a rank that "
                "has had the most batches."
            )
        read = None if self._read is None else self._read()
        if read is not None and read.is_under_way():
            refuse_while_read(type(self).__name__)
        if mix is not None:
            self._continue_with(mix)
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
            Exception: Exceptions of the transforms, with a note that names the sample; also those of the `order`, such
                as the ValueError of a mix without repetition after its one epoch, and of the source, except those that
                ``on_error`` is about.
            TypeError, ValueError: If a transform returns what ``mean``, ``std`` or ``dtype`` cannot follow.
            TimeoutError: If a batch takes longer than the loader's ``timeout``. The next read goes on.
        """
        return EpochIterator(self._begin, self._begin_read, self._log, timeout=self._timeout, media=self._media)

    def _begin(self) -> tuple[Pipeline[Any], Steps, Epoch]:
        if self._output == "torch":
            # It takes seconds the first time, in which an op would seem to hang.
            import_torch()
        progress = self._following()
        steps = self._make_steps(progress)
        if not progress.position:
            self._warn_if_idle(steps)
        # The rest of an epoch is not lost if the first read of it fails.
        begun = progress.position == 0
        self._current = epoch = Epoch(progress._replace(begun=begun, failures=self._log.record))
        self._pipeline = pipeline = self._declare(steps, progress)
        return pipeline, steps, epoch

    def _begin_read(self, iterator: EpochIterator[Batch], epoch: Epoch) -> None:
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


def check_function(name: str, function: object) -> None:
    if not (function is None or callable(function)):
        refuse(TypeError, name, "a function, or None", function)


def _transfer(device: Any, result: StepResult) -> StepResult:
    if result.batch is None:
        return result
    try:
        return result._replace(batch=send(result.batch, device))
    except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
        return result._replace(batch=None, error=error)
