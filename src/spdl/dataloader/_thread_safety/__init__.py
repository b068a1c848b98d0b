"""Whether threads may share a dataset: proven by reading the code that loads an item."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
