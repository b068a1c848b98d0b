"""Code that the commands share: the console, caches, provenance and measuring."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
