"""The files of a folder."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.source._folders import LocalDirectory

__all__ = ["LocalDirectory"]
