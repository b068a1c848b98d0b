"""Loaders of labelled media: images, clips and sounds, from records to batches."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
