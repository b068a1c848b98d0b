"""The type variable of functions and classes that pass on items of any type."""

from typing import TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["T"]

T = TypeVar("T")
