"""Sources whose records lie in files that are read in parts."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
