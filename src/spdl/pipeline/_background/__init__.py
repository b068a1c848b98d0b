"""Tasks that run beside the stages, on the pipeline's event loop."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
