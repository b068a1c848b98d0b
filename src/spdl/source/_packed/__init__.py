"""Shards of MosaicML Streaming and LitData, whose samples lie one after the other."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
