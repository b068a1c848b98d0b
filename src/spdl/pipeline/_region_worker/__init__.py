"""What runs in the workers of regions: a pipeline of the region's stages, and its connection to the other one."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
