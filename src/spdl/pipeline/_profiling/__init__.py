"""Profiling: measures each stage of a pipeline alone, with different numbers of threads."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
