"""Notes what each thread of a pipeline does when, where somebody records it."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
