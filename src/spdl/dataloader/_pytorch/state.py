"""The state of a loader: what it is made of, and whether it fits another loader."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from torch.utils.data import DataLoader, IterableDataset

from spdl._sealed import check_state, sealed
from spdl.dataloader._pytorch.fetching import is_stateful
from spdl.dataloader._pytorch.random_states import Moment, pack_generator, unpack_generator
from spdl.dataloader._pytorch.received import IterableEpoch, MapEpoch
from spdl.dataloader._pytorch.samplers import (
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
