"""Regions: stages that run in workers, as the pipeline that has them sees them."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
