"""Sources of samples with labels, which are records with named fields."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
