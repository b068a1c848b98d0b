"""Helpers to test your own pipelines and loaders."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.testing._equal_steps import assert_equal_steps
from spdl.testing._resumes_exactly import assert_resumes_exactly

__all__ = ["assert_equal_steps", "assert_resumes_exactly"]
