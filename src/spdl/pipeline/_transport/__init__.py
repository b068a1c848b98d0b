"""What carries items from one process to another."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
