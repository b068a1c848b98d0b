"""The loader with the arguments and the batches of PyTorch's DataLoader. Its modules import torch."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
