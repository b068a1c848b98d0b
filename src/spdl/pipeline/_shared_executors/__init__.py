"""Pools of threads, processes or interpreters that several stages share, the most urgent call first."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
