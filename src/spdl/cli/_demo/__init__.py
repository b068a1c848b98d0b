"""`spdl demo` and `spdl bench images`: loading photos, a comparison with other loaders, and the report."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
