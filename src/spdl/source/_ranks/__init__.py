"""Ranks that read by themselves, and stop together."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
