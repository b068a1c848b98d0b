"""The report: what a pipeline did over time, on a page of HTML that needs nothing else."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
