"""Queues of the user's between stages, and merges that the user writes; both run on the event loop."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
