"""The common part of loaders of samples: their order, steps and pipeline, but not reading."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from spdl._check import check_choice, check_flag, refuse
from spdl.dataloader._loader.epoch_iterator import EpochStep, EpochSteps, StepResult
from spdl.dataloader._loader.epoch_loader import SHARED, Batch, EpochLoader, check_function
from spdl.dataloader._loader.failures import SampleFailure, describe_failures
from spdl.dataloader._loader.loader_state import Identity, LoaderProgress, identify
from spdl.dataloader._loader.tensors import OutputKind
from spdl.io import LoadError
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline._report.page import StageArguments
from spdl.source import EpochOrder, MixedOrder, SequentialOrder, ShuffledOrder, replacements
from spdl.source._shared import refuse_batches, warn_of_idle_rank

OnError: TypeAlias = Literal["raise", "skip", "refill"]

# So many batches are made at once, at the most: with more, memory would grow with the number of cores.
BATCHES_AT_ONCE = 4

SHARED_BY_SAMPLES = (*SHARED, "shuffle", "order", "on_error")
"""The arguments that all loaders of samples have."""

MADE_WITH = ("seed", "on_error", "batch_transform", "output")
"""Those that are passed on to a `Maker`."""

_REFILLS = 32


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
    """Makes batches. Several threads call it at once.

    Replacements come from the user's order, or from so many samples.
    """

    media: str
    """The word for the samples in messages."""
    called: ClassVar[str] = "samples"
    """The word for replacements there."""
    otherwise: ClassVar[str]
    """The remedy if more threads do not help."""
    in_place_of_processes: ClassVar[str]
    """The remedy if threads wait for the GIL."""

    def __init__(
        self,
        drawn_from: EpochOrder | int,
        *,
        seed: int,
        on_error: OnError,
        batch_transform: Callable[[Any], Any] | None,
        output: OutputKind,
    ) -> None:
        self._drawn_from = drawn_from
        self._seed = seed
        self._on_error = on_error
        self._batch_transform = batch_transform
        self._output = output

    @abc.abstractmethod
    def make(self, step: EpochStep, epoch: int, num_threads: int) -> tuple[Any, tuple[SampleFailure, ...]]:
        """Return the batch of the samples of a step, or None if all were left out; and the samples that failed."""

    def _replace(
        self,
        step: EpochStep,
        epoch: int,
        failed: Mapping[int, SampleFailure],
        retry: Callable[[dict[int, int]], Mapping[int, SampleFailure]],
    ) -> list[SampleFailure]:
        """Put other samples in the places of those that failed, and return all that failed.

        `retry` loads samples into places, and returns those that fail again.
        """
        indices, positions = step.indices.tolist(), step.positions.tolist()
        others = {
            place: other_samples(self._drawn_from, self._seed, epoch, indices[place], positions[place])
            for place in failed
        }
        tried = {place: [failure] for place, failure in failed.items()}
        noted: list[SampleFailure] = []
        for _ in range(_REFILLS):
            draws = {place: next(others[place], -1) for place in tried}
            if -1 in draws.values():
                break
            again = retry(draws)
            for place, index in draws.items():
                if place in again:
                    tried[place].append(again[place])
                else:
                    noted += [failure._replace(replacement=index) for failure in tried.pop(place)]
            if not tried:
                return noted
        most = max(tried.values(), key=len)
        remedy = "There is no other sample to put in their place."
        if len(most) > 1:
            remedy = (
                f"None of {len(most) - 1} other {self.called} that were tried in their place could be loaded either, "
                f"at last sample {most[-1].index}: {most[-1].reason}"
            )
        raise LoadError(describe_failures([each[0] for each in tried.values()], len(indices), self.media, remedy))


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
        on_error: OnError,
        transform: Callable[..., Any] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(batch_size, media, **others)
        self.dataset = source
        size = count(source)
        self._order = make_order(size, order, shuffle=check_flag("shuffle", shuffle), seed=self._seed)
        check_choice("on_error", on_error, get_args(OnError))
        check_function("transform", transform)
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
        steps = EpochSteps(self._order, *self._share(), progress.position)
        steps.check("samples")
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

    @property
    def _mix(self) -> MixedOrder | None:
        return self._order if isinstance(self._order, MixedOrder) else None

    def _continue_with(self, mix: MixedOrder) -> None:
        self._order = mix

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
        loading = StageArguments(
            unit="batch",
            several="num_threads",
            value=threads,
            most=BATCHES_AT_ONCE,
            otherwise=maker.otherwise,
            in_place_of_processes=maker.in_place_of_processes,
        )
        return self._finish(
            builder, at_once, [loading], source="Nothing but `order` runs there: have its `take()` do less."
        )


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
    items = getattr(order, "num_items", size)
    if items != size:
        refuse(ValueError, "order", f"one of the {size} samples of `source`", order, f"This one is of {items} items.")
    if shuffle:
        refuse(ValueError, "shuffle", "False with an `order`, which says itself what is shuffled", shuffle)
    return order


def count(source: Any) -> int:
    accepted = "a sequence of samples, with `len(source)` and `source[index]`"
    if isinstance(source, str | bytes) or not all(hasattr(type(source), name) for name in ("__len__", "__getitem__")):
        remedy = "Pass a list of what it yields." if isinstance(source, Iterable) else ""
        if isinstance(source, str | os.PathLike):
            remedy = "Sources of spdl.source read what is at a path, such as ImageFolder(path) and ImageShards(path)."
        refuse(TypeError, "source", accepted, source, remedy)
    if isinstance(source, Mapping):
        refuse(TypeError, "source", accepted, source, "A mapping has keys, not positions.")
    size = len(source)
    if not size:
        refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
    return size
