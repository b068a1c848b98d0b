"""`spdl demo` and `spdl bench-images`: loading photos beside other loaders, and the report."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
