"""Transfer of buffers and tensors to GPUs and back."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
