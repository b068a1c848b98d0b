"""One pass over a dataset, which of its batches the consumer has received, and the state of a loader."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch.utils.data import DataLoader, IterableDataset

from spdl._ranges import Ranges
from spdl._sealed import check_state, sealed
from spdl.dataloader._pytorch.fetching import BatchRequest, is_stateful
from spdl.dataloader._pytorch.random_states import Moment, pack_generator, unpack_generator
from spdl.dataloader._pytorch.samplers import (
    DrawnOrder,
    OrderNotes,
    Part,
    check_epochs,
    check_stages,
    class_name,
    has_epoch,
    note_parts,
    parts_of,
    private_generator,
    private_generators,
    restore_parts,
    tell_epochs,
)


class Position(NamedTuple):
    """How far the consumer is in one worker's copy of an iterable dataset, which has a state or None."""

    batches: int
    state: Any


class StreamStep(NamedTuple):
    """A batch that was received, or failed and was told, and the turn, which counts those before it of all workers."""

    turn: int
    worker: int
    state: Any


class Positions:
    """The positions of all workers, and whose turn it is."""

    __slots__ = ("_settled", "latest")

    def __init__(self, positions: Sequence[Position], worker: int = 0) -> None:
        self._settled = 0, tuple(positions), worker
        # It is set by a mere assignment, as the last step before a batch is returned.
        self.latest: StreamStep | None = None

    @property
    def turn(self) -> int:
        return self._settled[0]

    def receive(self, step: StreamStep) -> None:
        self.settle()
        self.latest = step

    def settle(self) -> None:
        # In one assignment. From then on the latest is one that was settled already.
        self._settled = self._with_latest()

    def snapshot(self) -> tuple[tuple[Position, ...], int]:
        """Return the positions, and the worker whose batch comes next. It changes nothing."""
        _, positions, worker = self._with_latest()
        return positions, worker

    def _with_latest(self) -> tuple[int, tuple[Position, ...], int]:
        settled, latest = self._settled, self.latest
        turn, positions, _ = settled
        if latest is None or latest.turn != turn:
            return settled
        before = positions[latest.worker].batches
        moved = (
            *positions[: latest.worker],
            Position(before + 1, latest.state),
            *positions[latest.worker + 1 :],
        )
        return turn + 1, moved, (latest.worker + 1) % len(positions)


class ReceivedBatches:
    """The numbers of the batches that the consumer has received, here or in another process."""

    __slots__ = ("_settled", "latest")

    def __init__(self, received: Ranges | None = None) -> None:
        self._settled = received or Ranges()
        # It is set by a mere assignment, as the last step before a batch is returned: a signal handler sees either that
        # the batch was received, or a consumer that has not got it.
        self.latest: int | None = None

    @property
    def below(self) -> int:
        return self._settled.watermark

    def receive(self, number: int) -> None:
        self.settle()
        self.latest = number

    def settle(self) -> None:
        if self.latest is not None:
            self._settled.add(self.latest, self.latest + 1)
            self.latest = None

    def snapshot(self) -> Ranges:
        """Return the numbers. It changes nothing, so a signal handler may call it."""
        found = Ranges(self._settled.runs)
        if self.latest is not None:
            found.add(self.latest, self.latest + 1)
        return found


class EpochSeed(NamedTuple):
    """The seed of an epoch's first worker, None until it is drawn.

    `generator` is the state of the loader's own generator, if it has one: before torch draws the seed until that is
    `settled`, and then after it.
    """

    base: int | None
    generator: Any
    settled: bool = False


class _SeededEpoch:
    """One pass over a dataset, and the seed of its workers, drawn from the loader's torch generator or the global one.

    `packed` is what `pack` returned for the same epoch in another process. Workers that stay keep `base_seed`.
    """

    def __init__(self, generator: Any, packed: dict[str, Any] | None, base_seed: int | None) -> None:
        self.finished = False
        self._generator = generator
        if packed is None:
            self.seed = EpochSeed(base_seed, None if generator is None else generator.get_state())
        else:
            text = packed["generator"]
            self.seed = EpochSeed(packed["base_seed"], None if text is None else unpack_generator(text))
        self._resumed = self.seed.base is not None
        # Nothing may be drawn from the global generator either.
        self._global_state = torch.get_rng_state() if self._resumed and generator is None else None

    def settle_seed(self, drawn: int) -> int:
        """Return the seed of the epoch's first worker: the one that was drawn, unless the epoch began elsewhere."""
        if not self._resumed:
            self.seed = EpochSeed(drawn, None if self._generator is None else self._generator.get_state(), settled=True)
        elif self._global_state is not None:
            torch.set_rng_state(self._global_state)
        elif self.seed.generator is not None:
            self._generator.set_state(self.seed.generator)
        self.seed = self.seed._replace(settled=True)
        assert self.seed.base is not None
        return self.seed.base

    def pack_seed(self) -> dict[str, Any]:
        state = self.seed.generator
        return {"base_seed": self.seed.base, "generator": None if state is None else pack_generator(state)}

    def finish(self) -> None:
        self.finished = True


class MapEpoch(_SeededEpoch):
    """The inputs that determine the batches of an epoch, and the batches that the consumer has received.

    torch iterates over it in the place of the loader's sampler.
    """

    def __init__(self, sampler: Any, generator: Any, packed: dict[str, Any] | None, base_seed: int | None) -> None:
        super().__init__(generator, packed, base_seed)
        self._sampler = sampler
        received, notes = None, None
        if packed is not None:
            received, notes = Ranges.from_state(packed["received"]), OrderNotes.unpack(packed["sampling"])
        self.progress = ReceivedBatches(received)
        self._sampling = DrawnOrder(sampler, self.progress, notes)

    def __iter__(self) -> Iterator[BatchRequest]:
        return self._sampling.requests()

    def __len__(self) -> int:
        return len(self._sampler)

    def pack(self) -> dict[str, Any]:
        """It changes nothing and takes no lock."""
        received = self.progress.snapshot()
        sampling = self._sampling.note(received.watermark).pack()
        return {"received": received.to_state(), **self.pack_seed(), "sampling": sampling}


_LG = logging.getLogger("spdl.dataloader")


class IterableEpoch(_SeededEpoch):
    def __init__(
        self, dataset: Any, num_workers: int, generator: Any, packed: dict[str, Any] | None, base_seed: int | None
    ) -> None:
        super().__init__(generator, packed, base_seed)
        self._name = type(dataset).__name__
        # The positions at which the workers begin, and the worker that is asked first.
        self.begins = (Position(0, None),) * max(1, len(range(num_workers)))
        self.first_worker = 0
        if packed is not None:
            self.begins = tuple(Position(*it) for it in packed["workers"])
            self.first_worker = packed["next_worker"]
        self.progress = Positions(self.begins, self.first_worker)
        if packed is None and not num_workers and is_stateful(dataset):
            # It may have been through epochs before.
            self.progress = Positions([Position(0, ["dataset", copy.deepcopy(dataset.state_dict())])])

    def tell_what_is_repeated(self) -> None:
        if passed := sum(it.batches for it in self.begins if it.state is None):
            _LG.warning(
                "The rest of an epoch begins after %d batches. %s has no `state_dict`, so they are iterated over "
                "again, and dropped.",
                passed,
                self._name,
            )

    def pack(self) -> dict[str, Any]:
        """It changes nothing and takes no lock."""
        positions, worker = self.progress.snapshot()
        return {"workers": [list(it) for it in positions], "next_worker": worker, **self.pack_seed()}


_KIND = "PyTorchDataLoader"

# Libraries look for it in the states of PyTorch's loaders, and change it, so the checksum does not count it.
_FINISHED = "_iterator_finished"


def make_state(loader: DataLoader, sampler: Any, epoch: Any) -> dict[str, Any]:
    finished = epoch is not None and epoch.finished
    # torch draws a seed while it makes an iterator. For a signal handler that comes then, the epoch has not begun.
    begins = epoch is not None and not epoch.seed.settled
    within = epoch is not None and not begins and not finished
    dataset, generator = loader.dataset, private_generator(loader)
    generator_state = epoch.seed.generator if begins else generator and generator.get_state()
    # For an iterable dataset, the epoch knows the state that belongs to the batches received.
    keeps_dataset = is_stateful(dataset) and not (within and isinstance(dataset, IterableDataset))
    content = {
        "fingerprint": _fingerprint(loader, sampler),
        "epoch": epoch.pack() if within else None,
        "samplers": None if within else note_parts(sampler, generators=True),
        "generator": None if within or generator is None else pack_generator(generator_state),
        "base_seed": epoch.seed.base if (finished or begins) and loader.persistent_workers else None,
        "dataset": copy.deepcopy(dataset.state_dict()) if keeps_dataset else None,
    }
    return {**sealed(_KIND, content), _FINISHED: finished}


def _fingerprint(loader: DataLoader, sampler: Any) -> dict[str, Any]:
    dataset, parts = loader.dataset, parts_of(sampler)
    iterable = isinstance(dataset, IterableDataset)
    return {
        "dataset": class_name(dataset),
        "length": None if iterable else _length(dataset),
        "samplers": [class_name(part) for part in parts],
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "drop_last": bool(loader.drop_last),
        "copies": max(1, loader.num_workers) if iterable else None,
        "stateful": [is_stateful(each) for each in (dataset, *parts)],
        "generators": [private_generator(each) is not None for each in (loader, *parts)],
        "epochs": [has_epoch(part) for part in parts],
    }


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def check_whole(state: Any, loader: DataLoader, sampler: Any) -> None:
    content = {name: part for name, part in state.items() if name != _FINISHED} if isinstance(state, dict) else state
    check_state("state_dict", content, _KIND)
    saved, own = content["fingerprint"], _fingerprint(loader, sampler)
    if saved != own:
        names = [name for name in own if saved.get(name) != own[name]]
        before, now = (", ".join(f"{name}={part.get(name)!r}" for name in names) for part in (saved, own))
        raise ValueError(
            f"The state was saved by a loader over other data or with other arguments: it had {before}, and this "
            f"loader has {now}. Make the loader with the same dataset, sampler and batch size, or begin without the "
            "state."
        )


def apply_state(state: dict[str, Any], loader: DataLoader, sampler: Any) -> dict[str, Any] | None:
    """Restore the user's objects, and return what was noted of the epoch if the state is from the middle of one."""
    within: dict[str, Any] | None = state["epoch"]
    sampling = within.get("sampling") if within is not None else None
    if within is None:
        _restore_samplers(sampler, state["samplers"])
    elif sampling is not None:
        _restore_samplers(sampler, sampling["parts"], sampling["iterator"])
    if state["dataset"] is not None:
        try:
            loader.dataset.load_state_dict(copy.deepcopy(state["dataset"]))
        except Exception as error:  # noqa: BLE001 - whatever the user's code makes of it.
            _refuse_part("dataset", loader.dataset, error)
    generator = private_generator(loader)
    if within is None and generator is not None:
        generator.set_state(unpack_generator(state["generator"]))
    return within


def _restore_samplers(sampler: Any, noted: list[Part], iterator: Any = None) -> None:
    """Put the samplers in the state that was noted, or leave them unchanged if that fails."""
    before = note_parts(sampler, generators=True)
    try:
        tell_epochs(sampler, noted)
        restore_parts(sampler, noted)
        check_stages(parts_of(sampler), noted)
        if iterator is not None:
            _try_iterator(sampler, iterator)
            restore_parts(sampler, noted)
        check_epochs(parts_of(sampler), noted)
    except Exception as error:  # noqa: BLE001 - whatever the user's code makes of it.
        tell_epochs(sampler, before)
        restore_parts(sampler, before)
        _refuse_part("sampler", sampler, error)


def _try_iterator(sampler: Any, state: Any) -> None:
    """Restore an iterator of the sampler and drop it. It may draw from any generator, which is as before then."""
    generators = private_generators(parts_of(sampler))
    with Moment.note(generators, of_all=True).in_force(generators):
        iter(sampler).load_state_dict(copy.deepcopy(state))


def _refuse_part(kind: str, part: object, error: Exception) -> NoReturn:
    raise ValueError(
        f"The state is damaged, or cannot be loaded here: the {kind}, a {class_name(part)}, does not take its part of "
        f"it: {error!r}. Pass what `state_dict()` of a loader that is made as this one returned."
    ) from error


def make_epoch(
    loader: DataLoader, sampler: Any, packed: dict[str, Any] | None, base_seed: int | None = None
) -> MapEpoch | IterableEpoch:
    # torch refuses an invalid generator when it draws.
    generator = private_generator(loader)
    if isinstance(loader.dataset, IterableDataset):
        return IterableEpoch(loader.dataset, loader.num_workers, generator, packed, base_seed)
    return MapEpoch(sampler, generator, packed, base_seed)
