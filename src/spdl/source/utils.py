"""Shuffle, repeat and merge sources."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._embed_shuffle import embed_shuffle
from spdl.source._merge_iterator import MergeIterator
from spdl.source._repeat_source import repeat_source

__all__ = ["MergeIterator", "embed_shuffle", "repeat_source"]
