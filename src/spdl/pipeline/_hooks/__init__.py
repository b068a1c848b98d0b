"""Hooks: the user's async context managers around stages and tasks, which run on the event loop."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
