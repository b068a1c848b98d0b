"""Functions and classes that shuffle, repeat and merge sources."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._iterables.merge_iterator import MergeIterator
from spdl.source._iterables.repeat_source import repeat_source
from spdl.source._samplers.embed_shuffle import embed_shuffle
from spdl.source._samplers.protocols import IterableWithShuffle

__all__ = ["IterableWithShuffle", "MergeIterator", "embed_shuffle", "repeat_source"]
