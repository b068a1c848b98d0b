"""Which item comes at which position of an epoch, as functions that remember nothing."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
