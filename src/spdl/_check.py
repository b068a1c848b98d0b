"""Checks of arguments, and what messages show of values.

A message names the argument, what was got, what is accepted, and the user's line. Of text that others have a part in it
shows URLs without what may be a secret, and no control characters.
"""

from __future__ import annotations

import math
import operator
import os
import re
import reprlib
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from spdl._locate import callers_line

if TYPE_CHECKING:
    from fractions import Fraction


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 100

    def repr_str(self, value: str, level: int) -> str:
        return super().repr_str(shown(value) if "://" in value else value, level)

    def repr_bytes(self, value: bytes, level: int) -> str:
        # Only the beginning: a whole file may be given.
        return self.repr_instance(value[: self.maxother], level)

    repr_bytearray = repr_bytes

    def repr_instance(self, value: object, level: int) -> str:
        text = super().repr_instance(value, level)
        # Arrays put each row on its own line.
        return " ".join(line.strip() for line in text.splitlines()) if hasattr(type(value), "__array__") else text


_REPR = _Shortened()


def show(value: object) -> str:
    try:
        return _REPR.repr(value)
    except ValueError:  # Python writes no int of more than some thousand digits.
        return f"one of type {type(value).__name__}"


def refuse(error: type[Exception], argument: str, accepted: str, value: object, remedy: str = "") -> NoReturn:
    """Raise an error that says everything about a wrong argument."""
    remedy = remedy and f" {remedy}"
    line = callers_line()
    place = f" ({line})" if line else ""
    raise error(f"`{argument}` must be {accepted}, got {show(value)}{place}.{remedy}")


_LOST_SLASH = re.compile(r"(?:s3a?|gs|az|abfss?|https?|hf):/[^/]", re.IGNORECASE)


def refuse_lost_slash(argument: str, path: str) -> None:
    """Raise a ValueError if a path is a URL that was in a ``pathlib.Path``."""
    if _LOST_SLASH.match(path):
        remedy = "pathlib.Path takes a slash from '://': pass URLs as str."
        refuse(ValueError, argument, "a URL or a path", path, remedy)


def check_int(
    argument: str,
    value: object,
    *,
    least: int | None,
    most: int | None = None,
    accepted: str = "",
    wrong_type: type[Exception] = TypeError,
) -> int:
    """Return the value as an int, if it is one; numpy's are.

    Raises:
        ValueError: If it is smaller than ``least`` or larger than ``most``.
        wrong_type: If it is not an integer. A bool is refused: ``True`` workers is a mistake.
    """
    number = value if type(value) is int else _to_int(value)
    if number is None:
        refuse(wrong_type, argument, accepted or _describe_ints(least, most), value)
    if (least is not None and number < least) or (most is not None and number > most):
        refuse(ValueError, argument, accepted or _describe_ints(least, most), value)
    return number


def _to_int(value: object) -> int | None:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # An array, say.
        return None


def _describe_ints(least: int | None, most: int | None) -> str:
    if least is None:
        return "an int"
    return f"an int of at least {least}" if most is None else f"an int from {least} to {most}"


def positive(argument: str, value: object, *, wrong_type: type[Exception] = TypeError) -> int:
    """Return the value as an int of at least 1; see `check_int`."""
    return check_int(argument, value, least=1, wrong_type=wrong_type)


def check_flag(argument: str, value: object) -> bool:
    """Return the value as a bool; numpy's bools, and 0 and 1, are accepted.

    Raises:
        TypeError: If it is anything else: the string ``"False"`` would count as true.
    """
    if isinstance(value, bool):
        return value
    if type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1)):
        return bool(value)
    refuse(TypeError, argument, "True or False", value)


def check_str(argument: str, value: object) -> str:
    """Return the value if it is a str.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(value, str):
        refuse(TypeError, argument, "a str", value)
    return value


def check_choice(argument: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if not ((value is None or isinstance(value, str)) and value in choices):
        *others, last = map(repr, choices)
        refuse(ValueError, argument, f"{', '.join(others)} or {last}" if others else last, value)


def check_instance(
    argument: str, value: object, accepted_type: type[Any] | tuple[type[Any], ...], accepted: str
) -> None:
    """Raise TypeError, saying what is accepted, unless the value is an instance of the type, or of one of them."""
    if not isinstance(value, accepted_type):
        refuse(TypeError, argument, accepted, value)


def check_iterable(argument: str, value: object, accepted: str = "an iterable") -> None:
    """Raise TypeError unless ``iter`` takes the value."""
    if not (hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")):
        refuse(TypeError, argument, accepted, value)


def refuse_set(argument: str, value: object) -> None:
    """Raise TypeError if it is a set, where the order of elements matters."""
    if isinstance(value, set | frozenset):
        remedy = "A set has another order in each process: pass it sorted, or as the list that it was made of."
        refuse(TypeError, argument, "in an order, such as a list", value, remedy)


def refuse_masked(argument: str, value: object) -> None:
    """Raise TypeError if it is an array of ``numpy.ma`` with masked elements, which would be read as numbers."""
    # A program that has a masked array has imported the module.
    module = sys.modules.get("numpy.ma")
    if module is not None and isinstance(value, module.MaskedArray) and module.is_masked(value):
        remedy = (
            "The mask would be lost: pass its filled(value), and numpy.ma.getmaskarray(array) beside it if the mask is "
            "needed."
        )
        refuse(TypeError, argument, "an array without masked elements", value, remedy)


def check_path(argument: str, value: object) -> None:
    """Raise TypeError unless the value is a path."""
    if not isinstance(value, (str, os.PathLike)):
        refuse(TypeError, argument, "a path (str or os.PathLike)", value)


def check_number(argument: str, value: Any, accepted: str = "a number") -> float:
    """Return the value as a float.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is NaN.
    """
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        refuse(TypeError, argument, accepted, value)
    try:
        number = float(value)
    except OverflowError:  # An int that no float can hold.
        return -math.inf if value < 0 else math.inf
    except (TypeError, ValueError):  # An array, say.
        refuse(TypeError, argument, accepted, value)
    if math.isnan(number):
        refuse(ValueError, argument, accepted, value)
    return number


def check_timeout(argument: str, value: object) -> float | None:
    """Return how many seconds to wait at most, or None for as long as it takes.

    The rest of a time that was shared out may be negative: that counts as 0.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is NaN.
    """
    if value is None:
        return None
    return max(0.0, check_number(argument, value, "a number of seconds or None"))


def check_seconds(argument: str, value: object, *, above_zero: bool) -> float:
    """Return a finite number of seconds.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is negative, infinite or NaN; if it is 0 and must be above.
    """
    accepted = f"a finite number of seconds{', more than 0' if above_zero else ' of at least 0'}"
    number = check_number(argument, value, accepted)
    if not 0 <= number < math.inf or (above_zero and not number):
        refuse(ValueError, argument, accepted, value)
    return number


def check_max_failures(value: object) -> int | Fraction:
    """Return the value if it is valid for ``max_failures``.

    Raises:
        TypeError: If it is neither an int nor a Fraction. A float is refused because 1.0 could mean one item or all.
        ValueError: If it is a Fraction outside (0, 1].
    """
    accepted = "an int (negative: no limit) or a fractions.Fraction above 0 and at most 1"
    if is_fraction(value):
        if not 0 < value <= 1:
            refuse(ValueError, "max_failures", accepted, value)
        return value
    return check_int("max_failures", value, least=None, accepted=accepted)


def is_fraction(value: object) -> TypeGuard[Fraction]:
    """Return whether a value is a `fractions.Fraction`, without importing the module."""
    # A program that has a Fraction has imported its module. Importing it here would cost all others 3 ms.
    module = sys.modules.get("fractions")
    return module is not None and isinstance(value, module.Fraction)


# Patterns, which are compiled when they are first used.
# In abfss://container@account.dfs.core.windows.net/ that is a container, not a user.
_USER = r"(?i)^((?!abfss?://[^:/?#]*@)[a-z][a-z0-9+.-]*://)[^/?#]*@"
# Text after a colon that is not a port is the start of a password that contains a slash or the like.
_NO_PORT = r"(?is)^([a-z][a-z0-9+.-]*://)(?!\[[^/]*\](?::\d*)?(?:/|$))[^/]*:(?!\d+(?:/|$))(?:.*@|[^/]*)"
# A colon at its end is one of the sentence.
_URL = r"(?i)[a-z][a-z0-9+.-]*://[^\s'\"<>]*(?<!:)"
_QUERY = r"\?[\w%.~-]+=[^\s'\"<>]*"


def without_user(url: str) -> str:
    """Return a URL without the user's name and password."""
    return re.sub(_USER, r"\1", url)


def shown(url: str) -> str:
    """Return a URL without what may be a secret: the user's name and password, and the query, such as a signature."""
    return re.sub(_NO_PORT, r"\1...", re.split(r"[?#]", without_user(url), maxsplit=1)[0])


def shown_place(place: str) -> str:
    """Return a path unchanged, and a URL as `shown` has it."""
    return shown(place) if "://" in place else place


def shown_urls(text: str) -> str:
    """Return foreign text with its URLs as `shown` has them, and without parts that look like a query."""
    return re.sub(_QUERY, "?...", re.sub(_URL, lambda found: shown(found[0]), text))


def escaped(text: str) -> str:
    """Return a text that is safe for a terminal or a log: line ends and control characters are written out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
