"""Samplers and shuffles: which items to load, and in which order."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
