"""The work of a pipeline and its threads over a short time, seen from outside."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
