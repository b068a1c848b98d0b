"""Loaders of text, and the stages that they are made of."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
