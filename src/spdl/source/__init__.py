"""Sources: what to load and in which order.

Any iterable is a source. This package has those that many training jobs need: folders, samplers that share a dataset
among processes, and functions that shuffle, repeat and merge sources. All give the same order for the same seed on
every machine; for `DistributedRandomSampler`, the version of NumPy must be the same too.
"""

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._folders.imagenet import ImageNet
from spdl.source._folders.local_directory import LocalDirectory
from spdl.source._iterables.merge_iterator import MergeIterator
from spdl.source._iterables.repeat_source import repeat_source
from spdl.source._samplers.deterministic import DistributedDeterministicSampler
from spdl.source._samplers.embed_shuffle import embed_shuffle
from spdl.source._samplers.protocols import IterableWithShuffle, SizedIterable, SizedIterableWithShuffle

if TYPE_CHECKING:
    from spdl.source._samplers.random import DistributedRandomSampler

__all__ = [
    "DistributedDeterministicSampler",
    "DistributedRandomSampler",
    "ImageNet",
    "IterableWithShuffle",
    "LocalDirectory",
    "MergeIterator",
    "SizedIterable",
    "SizedIterableWithShuffle",
    "embed_shuffle",
    "repeat_source",
]


def __getattr__(name: str) -> object:
    if name == "DistributedRandomSampler":
        # It needs numpy, which takes longer to import than everything else here.
        from spdl.source._samplers.random import DistributedRandomSampler  # noqa: PLC0415

        return DistributedRandomSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
