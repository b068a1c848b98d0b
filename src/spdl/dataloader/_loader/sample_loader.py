"""The common part of loaders of samples: their order, steps and pipeline, but not reading."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from spdl._check import check_choice, check_flag, refuse
from spdl.dataloader._loader.epoch_iterator import EpochStep, EpochSteps, StepResult
from spdl.dataloader._loader.epoch_loader import Batch, EpochLoader
from spdl.dataloader._loader.failures import SampleFailure
from spdl.dataloader._loader.loader_state import Identity, LoaderProgress, find_world, identify
from spdl.dataloader._loader.tensors import OutputKind
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline._for_loaders import tell_arguments
from spdl.pipeline._report.page import LoaderArguments, StageArguments
from spdl.source import EpochOrder, SequentialOrder, ShuffledOrder, replacements
from spdl.source._shared import refuse_batches, warn_of_idle_rank

OnError: TypeAlias = Literal["raise", "skip", "refill"]

# So many batches are made at once, at the most: with more, memory would grow with the number of cores.
BATCHES_AT_ONCE = 4

_TRANSFER = StageArguments(
    unit="batch",
    otherwise=(
        "One thread copies to the device, which no argument changes: have it copy less, such as pictures of "
        '`dtype="uint8"` that the device normalises.'
    ),
)


def other_samples(order: EpochOrder | int, seed: int, epoch: int, index: int, position: int) -> Iterator[int]:
    """Yield what to try in the place of a sample: a random order, by its index or its place in the user's order."""
    if isinstance(order, int):
        yield from replacements(order, index, seed=seed, epoch=epoch)
        return
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    # Samples that the order leaves out, such as the samples to validate with, are not replacements either.
    for other in replacements(len(order), position, seed=seed, epoch=epoch):
        found = int(order.take(epoch, np.array([other], dtype=np.int64))[0])
        if found != index:
            yield found


class Maker(abc.ABC):
    """Makes batches. Several threads call it at once."""

    media: str
    """The word for the samples in messages."""
    otherwise: ClassVar[str]
    """The remedy if more threads do not help."""
    in_place_of_processes: ClassVar[str]
    """The remedy if threads wait for the GIL."""

    @abc.abstractmethod
    def make(self, step: EpochStep, epoch: int, num_threads: int) -> tuple[Any, tuple[SampleFailure, ...]]:
        """Return the batch of the samples of a step, or None if all were left out; and the samples that failed."""


class SampleLoader(EpochLoader[Batch]):
    """The base of loaders whose batches are samples at positions of an order: of media, and of tables."""

    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        media: str,
        make_maker: Callable[[], Maker],
        *,
        shuffle: bool,
        order: EpochOrder | None,
        seed: int,
        drop_last: bool,
        even_batches: bool,
        rank: int | None,
        world_size: int | None,
        on_error: OnError,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[Any], Any] | None,
        output: OutputKind,
        device: Any,
        num_threads: int | None,
        prefetch: int,
        timeout: float | None,
    ) -> None:
        super().__init__(
            batch_size,
            media,
            seed=seed,
            drop_last=drop_last,
            rank=rank,
            world_size=world_size,
            output=output,
            device=device,
            num_threads=num_threads,
            prefetch=prefetch,
            timeout=timeout,
        )
        self.dataset = source
        self._even_batches = check_flag("even_batches", even_batches)
        size = count(source)
        self._order = make_order(size, order, shuffle=check_flag("shuffle", shuffle), seed=self._seed)
        check_choice("on_error", on_error, get_args(OnError))
        for name, function in (("transform", transform), ("batch_transform", batch_transform)):
            if not (function is None or callable(function)):
                refuse(TypeError, name, "a function, or None", function)
        self._maker = make_maker()
        self._fingerprint: str | None = None
        self._check_early()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}: {len(self._order):,} samples of {type(self.dataset).__name__} "
            f"in batches of {self.batch_size}, epoch {self.epoch}"
        )

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch. All ranks have the same, unless ``even_batches=False``."""
        return len(self._make_steps(LoaderProgress()))

    def _make_steps(self, progress: LoaderProgress) -> EpochSteps:
        world = find_world(*self._place)
        start = progress.position
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

    def _warn_if_idle(self, steps: EpochSteps) -> None:
        if not len(steps):
            remedy = "Take fewer ranks, or leave `even_batches` True, with which it gets one that another rank has too."
            warn_of_idle_rank(*steps.world, len(self._order), "samples of an epoch", remedy)

    def _make_identity(self) -> Identity:
        if self._fingerprint is None:
            self._fingerprint = identify(self.dataset)
        order = self._order
        return Identity(self._fingerprint, order.fingerprint, len(order), self._seed)

    def _declare(self, steps: EpochSteps, progress: LoaderProgress) -> Pipeline[StepResult]:
        threads = self._threads()
        at_once = min(threads, BATCHES_AT_ONCE)
        share = -(-threads // at_once)
        maker, epoch, size, order = self._maker, progress.epoch, len(self.dataset), self._order

        def load(step: EpochStep) -> StepResult:
            try:
                _check_within(step, size, order)
                batch, failures = maker.make(step, epoch, share)
            except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
                return StepResult(step.end, error=error)
            return StepResult(step.end, batch, failures=failures)

        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        builder.add_source(steps.read(epoch)).pipe(load, name="load", concurrency=at_once, output_order="input")
        pipeline = self._finish(builder, at_once)
        loading = StageArguments(
            unit="batch",
            several="num_threads",
            value=threads,
            most=BATCHES_AT_ONCE,
            otherwise=maker.otherwise,
            in_place_of_processes=maker.in_place_of_processes,
        )
        stages = (loading,) if self._device is None else (loading, _TRANSFER)
        source = "Nothing but `order` runs there: have its `take()` do less."
        tell_arguments(pipeline, LoaderArguments(type(self).__name__, stages, source=source))
        return pipeline


def _check_within(step: EpochStep, size: int, order: EpochOrder) -> None:
    """Raise an IndexError if an order chooses what the source has not: `on_error` would hide the mistake."""
    if (last := step.indices.max()) >= size:
        raise IndexError(
            f"The order {order.fingerprint!r} chooses sample {last}, and the source has only {size}: make the order "
            "for as many as `len(source)`."
        )


def make_order(size: int, order: EpochOrder | None, *, shuffle: bool, seed: int) -> EpochOrder:
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
    refuse_batches("order", order)
    if not len(order):
        refuse(ValueError, "order", "an order of at least one sample", order, "It chooses none.")
    if shuffle:
        refuse(ValueError, "shuffle", "False with an `order`, which says itself what is shuffled", shuffle)
    return order


def count(source: Any) -> int:
    accepted = "a sequence of samples, with `len(source)` and `source[index]`"
    if isinstance(source, str | bytes) or not all(hasattr(type(source), name) for name in ("__len__", "__getitem__")):
        refuse(TypeError, "source", accepted, source)
    if isinstance(source, Mapping):
        refuse(TypeError, "source", accepted, source, "A mapping has keys, not positions.")
    size = len(source)
    if not size:
        refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
    return size
