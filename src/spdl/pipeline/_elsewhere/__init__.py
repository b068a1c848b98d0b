"""Stages and iterables that run in other processes, interpreters and threads, and how items get there."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
