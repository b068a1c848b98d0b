"""Failed items and failed stages: limits, reports, timeouts and cancellation."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
