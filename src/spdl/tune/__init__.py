"""Chooses a pipeline's limits while it runs: concurrencies, threads, and the buffer in front of the consumer."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__: list[str] = []
