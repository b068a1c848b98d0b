"""Code that every medium needs: inputs, storage, errors and the native module."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
