"""Exporters: the counters of pipelines in the formats of monitoring systems."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
