"""Profiling: each stage of a pipeline alone, with different numbers of threads."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
