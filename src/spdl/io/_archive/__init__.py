"""Archives: tar files and compressed streams."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
