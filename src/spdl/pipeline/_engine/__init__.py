"""The scheduler: workers, sources, channels, and the rules that move items."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
