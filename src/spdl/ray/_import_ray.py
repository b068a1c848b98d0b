"""Imports Ray, which is an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["import_ray"]


def import_ray(name: str = "ray") -> Any:
    """Return Ray, or one of its modules.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"spdl.ray needs Ray, and {error.name!r} is not installed: pip install 'spdl-turbo[ray]'"
        ) from error
