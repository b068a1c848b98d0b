"""The verdict: what limits a pipeline that runs in another process."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
