"""`spdl profile`: the cost of each stage of a pipeline, and what to do about it."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
