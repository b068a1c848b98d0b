"""The records of items in flight and of passes over sources, and the form in which a state holds them."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
