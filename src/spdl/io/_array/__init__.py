"""Arrays: npy, npz and WAV files, and conversion between frameworks."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
