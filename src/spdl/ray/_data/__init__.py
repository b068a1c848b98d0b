"""Adapters between pipelines and Ray Data."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
