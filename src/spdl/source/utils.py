"""Functions and classes that shuffle, repeat and merge sources."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._iterables import MergeIterator, repeat_source
from spdl.source._samplers.shuffled import IterableWithShuffle, embed_shuffle

__all__ = ["IterableWithShuffle", "MergeIterator", "embed_shuffle", "repeat_source"]
