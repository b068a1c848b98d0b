"""Checks that a state is what a loader returned, before anything of it is put in force."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from torch.utils.data import IterableDataset

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import show

from .random_states import Moment, unpack_generator
from .requests import is_stateful
from .sampler_parts import class_name, dependence_of, has_epoch, parts_of, private_generator, private_generators

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["check_fields", "refuse_damage"]

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
