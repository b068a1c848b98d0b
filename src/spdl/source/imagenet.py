"""ImageNet's photos, in the folders that torchvision reads."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._folders import ImageNet, get_mappings, parse_wnid

__all__ = ["ImageNet", "get_mappings", "parse_wnid"]
