"""The samplers inside a sampler, and what of the outside world they depend on."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .requests import is_stateful

__all__ = ["Dependence", "class_name", "dependence_of", "has_epoch", "parts_of", "private_generator"]

Dependence: TypeAlias = Literal["nothing", "torch", "anything"]
"""Which of the process's random number generators an order may depend on."""

_DETERMINISTIC = (SequentialSampler, DistributedSampler, list, tuple, range)
_BY_GENERATOR = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)

# Samplers that wrap each other in a circle are a mistake, which shows elsewhere.
_DEEPEST = 8


def parts_of(sampler: Any) -> list[Any]:
    """Return the sampler and those it is made of, the outermost first.

    A sampler that saves its own state is the last: what it is made of is its own affair.
    """
    parts = [sampler]
    while len(parts) < _DEEPEST and not is_stateful(parts[-1]):
        inner = getattr(parts[-1], "batch_sampler", None) or getattr(parts[-1], "sampler", None)
        if inner is None:
            break
        parts.append(inner)
    return parts


def private_generator(part: Any) -> Any:
    """Return the torch generator that a sampler was given, or None."""
    generator = getattr(part, "generator", None)
    return generator if isinstance(generator, torch.Generator) else None


def has_epoch(part: Any) -> bool:
    """Return whether the sampler's order depends on an epoch that it is told."""
    return callable(getattr(part, "set_epoch", None)) and type(getattr(part, "epoch", None)) is int


def dependence_of(parts: list[Any]) -> Dependence:
    """Return what the order may depend on besides the samplers' own generators and states."""
    found: Dependence = "nothing"
    for part in parts:
        kind = type(part)
        if kind in _DETERMINISTIC or kind is BatchSampler or is_stateful(part):
            continue
        if kind not in _BY_GENERATOR:
            return "anything"
        if private_generator(part) is None:
            found = "torch"
    return found


def class_name(part: object) -> str:
    """Return the full name of an object's class."""
    return f"{type(part).__module__}.{type(part).__qualname__}"
