"""Imports what may not be installed."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
