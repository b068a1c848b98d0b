"""Tasks that run beside the stages, on the pipeline's event loop."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
