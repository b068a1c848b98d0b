"""The common parts of all ready-made loaders."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
