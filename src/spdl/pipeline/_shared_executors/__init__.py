"""Pools of threads, processes or interpreters that several stages share, with the most urgent call first."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
