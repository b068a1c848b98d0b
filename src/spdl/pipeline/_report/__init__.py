"""The counts and reports of a run: counters, statistics, log lines, failures, pages for other processes."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
