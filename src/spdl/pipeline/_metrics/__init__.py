"""Counters of a running pipeline, and the statistics, log lines and verdict made of them."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
