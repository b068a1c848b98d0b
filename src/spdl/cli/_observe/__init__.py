"""`spdl ps`, `spdl top`, `spdl why` and `spdl stack`: pipelines of other processes."""

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.
