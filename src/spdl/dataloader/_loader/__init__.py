"""What all ready-made loaders have in common."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
