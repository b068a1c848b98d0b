"""`spdl record`: a trace of a program that knows nothing of it."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
