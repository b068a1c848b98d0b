"""The state of a loader: what it is made of, and whether it fits another loader."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import refuse

from .random_states import pack_generator, unpack_generator
from .requests import is_stateful
from .sampler_parts import class_name, parts_of
from .sampling import note_parts, restore_parts, tell_epochs

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["apply_state", "check_state", "make_state"]

_VERSION = 1

_KEYS = {"version", "fingerprint", "_iterator_finished", "epoch", "samplers", "generator", "dataset"}


def make_state(loader: AnyLoader, sampler: Any, epoch: Any) -> dict[str, Any]:
    """Return the state of a loader.

    Args:
        loader: The loader.
        sampler: Yields its indices.
        epoch: The epoch that its latest iterator is in, or None.
    """
    finished = epoch is not None and epoch.finished
    within = epoch is not None and not finished
    dataset, generator = loader.dataset, loader.generator
    # Of an iterable dataset, the epoch knows the state that belongs to the batches received.
    keeps_dataset = is_stateful(dataset) and not (within and isinstance(dataset, IterableDataset))
    return {
        "version": _VERSION,
        "fingerprint": _fingerprint(loader, sampler),
        "_iterator_finished": finished,
        "epoch": epoch.note() if within else None,
        "samplers": None if within else note_parts(sampler),
        "generator": None if within or generator is None else pack_generator(generator.get_state()),
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
        ValueError: If it is truncated, of a newer version, or of a loader over other data.
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
    if version != _VERSION or missing:
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


def apply_state(state: dict[str, Any], loader: AnyLoader, sampler: Any) -> dict[str, Any] | None:
    """Restore the user's objects, and return what was noted of the epoch if the state is from the middle of one.

    Raises:
        ValueError: If the state is damaged.
    """
    within = None if state["_iterator_finished"] else state["epoch"]
    try:
        parts = state["samplers"] if within is None else within.get("sampling", {}).get("parts", ())
        if parts:
            tell_epochs(sampler, parts)
            restore_parts(sampler, parts)
        if within is None and state["generator"] is not None and loader.generator is not None:
            loader.generator.set_state(unpack_generator(state["generator"]))
    except (KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"The state is damaged: {error!r}. Pass what `state_dict()` returned.") from error
    if state["dataset"] is not None:
        loader.dataset.load_state_dict(copy.deepcopy(state["dataset"]))
    return within
