"""Packages that are installed only by those who need them."""

from __future__ import annotations

import importlib
import re
from typing import Any

__all__ = ["require"]


def require(package: str, purpose: str, *, extra: str = "", least: str = "") -> Any:
    """Return a package that an extra of this distribution installs; the extra has its name, or another one.

    Raises:
        ModuleNotFoundError: If it is not installed, or older than `least`. The message has the remedy.
    """
    remedy = f"pip install 'spdl-turbo[{extra or package}]'"
    try:
        found = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # It is there, but lacks something itself.
            raise
        raise ModuleNotFoundError(f"{purpose} needs the package {package}: {remedy}", name=package) from None
    if least and _numbers(found.__version__) < _numbers(least):
        raise ModuleNotFoundError(
            f"{purpose} needs the package {package} {least} or newer, and {found.__version__} is installed: {remedy}",
            name=package,
        )
    return found


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
