"""Traces: what each thread of a pipeline does when, as Perfetto shows it."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
