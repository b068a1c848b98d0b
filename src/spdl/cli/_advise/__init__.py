"""`spdl advise`: run a PyTorch job, and say whether it waits for its loader."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
