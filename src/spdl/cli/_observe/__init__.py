"""`spdl ps`, `spdl top` and `spdl why`: pipelines of other processes."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
