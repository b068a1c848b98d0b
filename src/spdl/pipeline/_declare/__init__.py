"""The declaration of a pipeline: records, the functions that make them, and process-wide defaults."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
