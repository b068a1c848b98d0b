"""Packages that are installed only by those who need them."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["require"]


def require(package: str, purpose: str, *, extra: str = "") -> Any:
    """Return a package that an extra of this distribution installs; the extra has its name, or another one.

    Raises:
        ModuleNotFoundError: If it is not installed. The message has the command that installs it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # It is there, but lacks something itself.
            raise
        raise ModuleNotFoundError(
            f"{purpose} needs the package {package}: pip install 'spdl-turbo[{extra or package}]'", name=package
        ) from None
