"""Checks of arguments before native code takes them, so that an error names the argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_type(name: str, value: object, accepted: type[Any], text: str) -> None:
    """Raise TypeError, saying that `text` is accepted, unless `value` is an instance of `accepted`."""
    if not isinstance(value, accepted):
        msg = f"`{name}` must be {text}, got {type(value).__name__}"
        raise TypeError(msg)


def check_text(name: str, text: object) -> None:
    """Raise TypeError unless `text` is a string, ValueError where FFmpeg would read only a part of it."""
    if not isinstance(text, str):
        msg = f"`{name}` must be a str, got {type(text).__name__}: {text!r}"
        raise TypeError(msg)
    if "\0" in text:
        msg = f"`{name}` must not hold a null character, where FFmpeg would stop reading, got {text!r}"
        raise ValueError(msg)


def check_integer(name: str, value: object, largest: int, unit: str, accepted: str = "an integer") -> int:
    """Return `value` as an int from 1 to `largest`, or raise TypeError, saying that `accepted` is, or ValueError."""
    try:
        number: int = value.__index__()  # type: ignore[attr-defined]
    except AttributeError:
        msg = f"`{name}` must be {accepted}, got {type(value).__name__}"
        raise TypeError(msg) from None
    if not 1 <= number <= largest:
        msg = f"`{name}` must be from 1 to {largest} {unit}, got {number}"
        raise ValueError(msg)
    return number


def copy_options(name: str, options: object) -> dict[str, str] | None:
    """Return a copy of `options`, which must map names to values, both as check_text wants it, or be None."""
    if options is None:
        return None
    if not isinstance(options, Mapping):
        msg = f"`{name}` must map names of options to values, both str, got {type(options).__name__}"
        raise TypeError(msg)
    copied = dict(options)
    for key, value in copied.items():
        check_text(f"{name}'s key", key)
        check_text(f"{name}[{key!r}]", value)
    return copied
