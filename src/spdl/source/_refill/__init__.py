"""Other items in the place of those that fail."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
