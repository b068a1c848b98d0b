"""`spdl profile`: which stage of a pipeline costs what, and what to do about it."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
