"""The declaration of a pipeline: records, the functions that make them, policies and process-wide defaults."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
