"""The element types of .npy headers that native code does not know: all but plain numbers."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any

from numpy.lib.format import descr_to_dtype

from spdl.io._common.errors import FormatError

if TYPE_CHECKING:
    import numpy as np

    DType = np.dtype[Any]

# As numpy writes a plain type: the byte order, a letter, a size, and for times the unit.
_PLAIN = re.compile(r"[<>|=]?[a-zA-Z][0-9]{0,10}(?:\[[0-9a-zA-Z/]{1,24}\])?")

_SHOWN = 60


def plain_dtype(text: str) -> DType:
    """Return the type that a string describes, such as ``">f4"``."""
    if _PLAIN.fullmatch(text) is None:
        msg = f"the npy header describes its elements as {_shown(text)}, which is not a type that numpy writes"
        raise FormatError(msg)
    return _accepted(text, text)


def structured_dtype(text: str) -> DType:
    """Return the type that a list of fields describes. `text` is a Python literal with matching brackets."""
    try:
        fields = _literal(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        msg = f"the npy header describes its elements by a list that cannot be read: {_shown(text)}"
        raise FormatError(msg) from error
    return _accepted(fields, text)


def _literal(text: str) -> Any:
    if sys.version_info < (3, 11, 8):
        # The parser there counts the depth of all threads together, so it fails if another one parses at the same time
        # (https://github.com/python/cpython/issues/106905).
        for _ in range(1000):
            try:
                return ast.literal_eval(text)
            except SystemError:
                continue
    return ast.literal_eval(text)


def _accepted(descr: Any, text: str) -> DType:
    try:
        dtype: DType = descr_to_dtype(descr)
    except Exception as error:
        msg = f"the npy header describes its elements as {_shown(text)}, which numpy does not accept: {error}"
        raise FormatError(msg) from error
    if dtype.hasobject:
        msg = (
            f"the npy data holds Python objects ({_shown(text)}): reading them would mean unpickling, which may run "
            "any code. Save plain arrays, with np.save(..., allow_pickle=False), and metadata as text"
        )
        raise FormatError(msg)
    return dtype


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
