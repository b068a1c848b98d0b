"""Packages that are installed only by those who need them."""

from __future__ import annotations

import importlib
import re
from typing import Any

__all__ = ["require"]


def require(package: str, purpose: str, *, extra: str = "", least: str = "") -> Any:
    """Return a package, or a module of it, that an extra of this distribution installs.

    The extra has the package's name, or another one.

    Raises:
        ModuleNotFoundError: If it is not installed, or older than `least`. The message has the remedy.
    """
    remedy = f"pip install 'spdl-turbo[{extra or package}]'"
    whole = package.partition(".")[0]
    try:
        found = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if not f"{package}.".startswith(f"{error.name}."):  # It is there, but lacks something itself.
            raise
        raise ModuleNotFoundError(f"{purpose} needs the package {whole}: {remedy}", name=whole) from None
    if least and _numbers(found.__version__) < _numbers(least):
        raise ModuleNotFoundError(
            f"{purpose} needs the package {package} {least} or newer, and {found.__version__} is installed: {remedy}",
            name=package,
        )
    return found


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
