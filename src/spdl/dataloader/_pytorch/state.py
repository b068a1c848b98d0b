"""The state of a loader: what it is made of, and whether it is one and fits another loader."""

from __future__ import annotations

import copy
import struct
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from torch.utils.data import IterableDataset

from spdl._check import refuse, show
from spdl.dataloader._pytorch.epochs import IterableEpoch, MapEpoch
from spdl.dataloader._pytorch.fetching import is_stateful
from spdl.dataloader._pytorch.random_states import Moment, pack_generator, unpack_generator
from spdl.dataloader._pytorch.samplers import (
    check_epochs,
    class_name,
    dependence_of,
    has_epoch,
    note_parts,
    parts_of,
    private_generator,
    private_generators,
    restore_parts,
    tell_epochs,
)

if TYPE_CHECKING:
    from spdl.dataloader._pytorch.iterators import AnyLoader
    from spdl.dataloader._pytorch.samplers import Part


# torch draws seeds below this one.
_SEEDS = 2**63
# An epoch and a seed together are a seed of torch's.
_EPOCHS = 2**62

_MAP_KEYS = ("received", "beyond", "base_seed", "generator", "sampling")
_SAMPLING_KEYS = ("parts", "position", "drawn", "iterator", "at_iter", "at_first")
_ITERABLE_KEYS = ("workers", "next_worker", "base_seed", "generator")


def refuse_damage(field: str, accepted: str, value: object) -> NoReturn:
    """Raise ValueError that says which field of a state is damaged."""
    raise ValueError(
        f"The state is damaged: its `{field}` must be {accepted}, got {show(value)}. Pass what `state_dict()` of a "
        "loader that is made as this one returned."
    )


def check_fields(state: dict[str, Any], loader: AnyLoader, sampler: Any) -> None:
    """Check each field of a state by itself, and against the others and the loader. It runs no code of the user's.

    Args:
        state: A dict with all keys, of a loader over the same data.
        loader: The loader that is to go on.
        sampler: Yields its indices.

    Raises:
        ValueError: If a field is not what a loader wrote, or does not fit the others.
    """
    finished, epoch = state["_iterator_finished"], state["epoch"]
    iterable = isinstance(loader.dataset, IterableDataset)
    if type(finished) is not bool or (finished and epoch is not None):
        refuse_damage("_iterator_finished", "true or false, and false with an `epoch`", finished)
    if state["base_seed"] is not None and (not finished or not _is_int(state["base_seed"], _SEEDS)):
        refuse_damage("base_seed", "None or the seed of workers that stay after an epoch", state["base_seed"])
    if epoch is None:
        _check_parts("samplers", state["samplers"], parts_of(sampler), generators=True)
        _check_generator("generator", state["generator"], wanted=private_generator(loader) is not None)
    else:
        for field in ("samplers", "generator"):
            if state[field] is not None:
                refuse_damage(field, "None beside an `epoch`", state[field])
        if iterable:
            _check_iterable(epoch, loader)
        else:
            _check_map(epoch, loader, parts_of(sampler))
    # Of an iterable dataset, the epoch has the state.
    keeps_dataset = is_stateful(loader.dataset) and not (iterable and epoch is not None)
    if (state["dataset"] is not None) is not keeps_dataset:
        accepted = "what the dataset's `state_dict()` returned" if keeps_dataset else "None"
        refuse_damage("dataset", accepted, state["dataset"])


def _check_map(epoch: Any, loader: AnyLoader, parts: list[Any]) -> None:
    _check_keys("epoch", epoch, _MAP_KEYS)
    received, beyond, sampling = epoch["received"], epoch["beyond"], epoch["sampling"]
    _check_keys("epoch.sampling", sampling, _SAMPLING_KEYS)
    drawn = sampling["drawn"]
    if not _is_int(drawn):
        refuse_damage("epoch.sampling.drawn", "a number of batches", drawn)
    if not _is_int(received, drawn + 1):
        refuse_damage("epoch.received", f"a number of batches, up to the {drawn} that were drawn", received)
    if not isinstance(beyond, list) or not all(_is_int(it, drawn) and it > received for it in beyond):
        refuse_damage("epoch.beyond", f"a list of numbers between {received} and {drawn}", beyond)
    if sorted({*beyond}) != beyond:
        refuse_damage("epoch.beyond", "sorted, each number once", beyond)
    _check_seed(epoch, loader, begun=drawn > 0)
    _check_sampling(sampling, parts, received)


def _check_sampling(sampling: dict[str, Any], parts: list[Any], received: int) -> None:
    generators, dependence = private_generators(parts), dependence_of(parts)
    _check_parts("epoch.sampling.parts", sampling["parts"], parts, generators=sampling["at_first"] is None)
    saves_itself, iterator = is_stateful(parts[-1]), sampling["iterator"]
    if iterator is not None and (saves_itself or dependence != "anything"):
        refuse_damage("epoch.sampling.iterator", "None, since the sampler's iterators save no states", iterator)
    position = sampling["position"]
    last = max(received - 1, 0) if saves_itself or iterator is not None else 0
    if not _is_int(position, last + 1):
        refuse_damage("epoch.sampling.position", f"a number of batches, up to {last} here", position)
    depends = bool(generators) or dependence != "nothing"
    wanted = {"at_iter": dependence == "anything", "at_first": depends and sampling["drawn"] > 0}
    accepted = {"at_iter": dependence == "anything", "at_first": depends}
    for name, moment in ((name, sampling[name]) for name in wanted):
        field = f"epoch.sampling.{name}"
        if moment is None and wanted[name]:
            refuse_damage(field, "the states of random number generators", moment)
        if moment is None:
            continue
        if not accepted[name]:
            refuse_damage(field, "None, since the order depends on no random number generator", moment)
        _check_moment(field, moment, len(generators), torch=dependence != "nothing", others=dependence == "anything")


def _check_moment(field: str, moment: Any, generators: int, *, torch: bool, others: bool) -> None:
    found = {"torch": torch, "python": others, "numpy": others and "numpy" in sys.modules}
    _check_keys(field, moment, ("generators", *(name for name in found if found[name])))
    own = moment["generators"]
    if not isinstance(own, list) or len(own) != generators:
        refuse_damage(f"{field}.generators", f"a list of the states of {generators} generators", own)
    try:
        Moment.unpack({name: state for name, state in moment.items() if name == "generators" or found.get(name)})
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error) as error:
        refuse_damage(field, f"the states of random number generators ({error})", moment)


def _check_parts(field: str, noted: Any, parts: list[Any], *, generators: bool) -> None:
    if not isinstance(noted, list) or len(noted) != len(parts):
        refuse_damage(field, f"a list of what was noted of {len(parts)} samplers", noted)
    for number, (it, part) in enumerate(zip(noted, parts, strict=True)):
        own = not is_stateful(part) and private_generator(part) is not None
        wanted = {"class": True, "state": is_stateful(part), "epoch": has_epoch(part), "generator": own and generators}
        name = f"{field}[{number}]"
        _check_keys(name, it, [key for key in wanted if wanted[key]])
        if it["class"] != class_name(part):
            refuse_damage(f"{name}.class", repr(class_name(part)), it["class"])
        if has_epoch(part) and not _is_int(it["epoch"], _EPOCHS):
            refuse_damage(f"{name}.epoch", "the number of an epoch", it["epoch"])
        if "state" in it and not wanted["state"]:
            refuse_damage(f"{name}.state", "left out, since the sampler saves none", it["state"])
        if "generator" in it:
            _check_generator(f"{name}.generator", it["generator"], wanted=own)


def _check_iterable(epoch: Any, loader: AnyLoader) -> None:
    _check_keys("epoch", epoch, _ITERABLE_KEYS)
    workers, copies = epoch["workers"], max(1, loader.num_workers)
    if not isinstance(workers, list) or len(workers) != copies:
        refuse_damage("epoch.workers", f"a list of the positions of {copies} workers", workers)
    if not _is_int(epoch["next_worker"], copies):
        refuse_damage("epoch.next_worker", f"a number below {copies}", epoch["next_worker"])
    for number, position in enumerate(workers):
        _check_position(f"epoch.workers[{number}]", position, loader)
    _check_seed(epoch, loader, begun=any(batches for batches, _ in workers))


def _check_position(field: str, position: Any, loader: AnyLoader) -> None:
    most = sys.maxsize // (loader.batch_size or 1)
    if not _is_pair(position) or not _is_int(position[0], most):
        refuse_damage(field, "a list of a number of batches and a state", position)
    batches, state = position
    saves_itself = is_stateful(loader.dataset)
    if state is None:
        if saves_itself and (batches or not loader.num_workers):
            refuse_damage(field, "a number and a state, since the dataset saves its own", position)
        return
    kind, value = state if _is_pair(state) else (None, None)
    # At its end, a dataset that saves no state is not asked for one.
    fits = {"end": saves_itself is (value is not None), "iterator": value is not None}
    fits["dataset"] = saves_itself and value is not None
    if not isinstance(kind, str) or not fits.get(kind, False):
        refuse_damage(f"{field}[1]", "None, or a list of 'dataset', 'iterator' or 'end', and its state", state)


def _check_seed(epoch: dict[str, Any], loader: AnyLoader, *, begun: bool) -> None:
    seed = epoch["base_seed"]
    if not _is_int(seed, _SEEDS) and (begun or seed is not None):
        refuse_damage("epoch.base_seed", "the seed of the workers", seed)
    wanted = seed is not None and private_generator(loader) is not None
    _check_generator("epoch.generator", epoch["generator"], wanted=wanted)


def _check_generator(field: str, text: Any, *, wanted: bool) -> None:
    if not wanted:
        if text is not None:
            refuse_damage(field, "None, since there is no `generator` here", text)
        return
    try:
        unpack_generator(text)
    except (AttributeError, TypeError, ValueError):
        refuse_damage(field, "the state of a torch.Generator", text)


def _check_keys(field: str, value: Any, keys: Any) -> None:
    missing = keys if not isinstance(value, dict) else [key for key in keys if key not in value]
    if missing or not isinstance(value, dict):
        refuse_damage(field, f"a dict with {', '.join(map(repr, missing))}", value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2  # noqa: PLR2004 - that is a pair.


def _is_int(value: Any, end: int | None = None) -> bool:
    """Return whether a value is an int of at least 0, and below the end."""
    return type(value) is int and value >= 0 and (end is None or value < end)


_VERSION = 1

_KEYS = {"version", "fingerprint", "_iterator_finished", "epoch", "samplers", "generator", "base_seed", "dataset"}


def make_state(loader: AnyLoader, sampler: Any, epoch: Any) -> dict[str, Any]:
    """Return the state of a loader.

    Args:
        loader: The loader.
        sampler: Yields its indices.
        epoch: The epoch that its latest iterator is in, or None.
    """
    finished = epoch is not None and epoch.finished
    within = epoch is not None and not finished
    dataset, generator = loader.dataset, private_generator(loader)
    # Of an iterable dataset, the epoch knows the state that belongs to the batches received.
    keeps_dataset = is_stateful(dataset) and not (within and isinstance(dataset, IterableDataset))
    return {
        "version": _VERSION,
        "fingerprint": _fingerprint(loader, sampler),
        "_iterator_finished": finished,
        "epoch": epoch.pack() if within else None,
        "samplers": None if within else note_parts(sampler, generators=True),
        "generator": None if within or generator is None else pack_generator(generator.get_state()),
        "base_seed": epoch.base_seed if finished and loader.persistent_workers else None,
        "dataset": copy.deepcopy(dataset.state_dict()) if keeps_dataset else None,
    }


def _fingerprint(loader: AnyLoader, sampler: Any) -> dict[str, Any]:
    iterable = isinstance(loader.dataset, IterableDataset)
    return {
        "dataset": class_name(loader.dataset),
        "length": None if iterable else _length(loader.dataset),
        "samplers": [class_name(part) for part in parts_of(sampler)],
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "drop_last": bool(loader.drop_last),
        "copies": max(1, loader.num_workers) if iterable else None,
    }


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def check_state(state: Any, loader: AnyLoader, sampler: Any) -> None:
    """Check that a state is one, and fits the loader.

    Raises:
        TypeError: If it is no dict.
        ValueError: If it is truncated or damaged, of a newer version, or of a loader over other data.
    """
    if not isinstance(state, dict):
        refuse(TypeError, "state_dict", "a dict that `state_dict()` returned", state)
    version = state.get("version")
    if type(version) is int and version > _VERSION:
        raise ValueError(
            f"The state has version {version}, and this release of spdl reads versions up to {_VERSION}: it was saved "
            "by a newer release. Load it with that one."
        )
    missing = sorted(_KEYS - state.keys())
    if type(version) is not int or version != _VERSION or missing:
        raise ValueError(
            f"The state is no state of a PyTorchDataLoader, or only a part of one: it has version {version!r}, and "
            f"lacks {missing}. Pass what `state_dict()` returned."
        )
    saved, own = state["fingerprint"], _fingerprint(loader, sampler)
    if saved != own:
        names = [name for name in own if not isinstance(saved, dict) or saved.get(name) != own[name]]
        raise ValueError(
            f"The state was saved by a loader over other data: {', '.join(names)} differ. Saved: {saved}; this loader: "
            f"{own}. Make the loader with the same dataset, sampler and batch size, or begin without the state."
        )
    check_fields(state, loader, sampler)


def apply_state(state: dict[str, Any], loader: AnyLoader, sampler: Any) -> dict[str, Any] | None:
    """Restore the user's objects, and return what was noted of the epoch if the state is from the middle of one.

    Args:
        state: A state that `check_state` let pass.
        loader: The loader.
        sampler: Yields its indices.

    Raises:
        ValueError: If an object of the user's does not take its part of the state.
    """
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
    """Put the samplers in the state that was noted, or leave them as they are if that fails."""
    before = note_parts(sampler, generators=True)
    try:
        tell_epochs(sampler, noted)
        restore_parts(sampler, noted)
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
    loader: AnyLoader, sampler: Any, packed: dict[str, Any] | None, base_seed: int | None = None
) -> MapEpoch | IterableEpoch:
    """Return a new epoch, or the rest of one that was packed.

    Args:
        loader: The loader.
        sampler: Yields its indices.
        packed: The epoch, or None for a new one.
        base_seed: The seed of the first worker, if the workers of a new epoch keep theirs.
    """
    # torch refuses a generator that is none when it draws.
    generator = private_generator(loader)
    if isinstance(loader.dataset, IterableDataset):
        return IterableEpoch(loader.dataset, loader.num_workers, generator, packed, base_seed)
    return MapEpoch(sampler, generator, packed, base_seed)
