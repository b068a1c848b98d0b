"""The parameters of functions, whatever their annotations name.

From Python 3.14 on, annotations are evaluated when they are first read. They may then name what only type checkers
import, and asking in the usual way raises a NameError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import Signature
from inspect import signature as _signature
from typing import Any

from spdl import _guard  # noqa: F401 - reports it when the reference has overwritten modules around this one.

__all__ = ["annotations_of", "signature"]

if sys.version_info >= (3, 14):
    from annotationlib import Format, ForwardRef, get_annotations

    def signature(function: Callable[..., Any]) -> Signature:
        """Return the signature of a function, as `inspect.signature` does."""
        return _signature(function, annotation_format=Format.FORWARDREF)

    def annotations_of(function: Any) -> dict[str, Any]:
        """Return the annotations of a function, by parameter. Annotations of missing names are strings.

        Raises:
            Exception: If the annotations cannot be read.
        """
        found = get_annotations(function, format=Format.FORWARDREF)
        return {name: each.__forward_arg__ if isinstance(each, ForwardRef) else each for name, each in found.items()}

else:
    signature = _signature

    def annotations_of(function: Any) -> dict[str, Any]:
        """Return the annotations of a function, by parameter: a string if they are not evaluated.

        Raises:
            AttributeError: If it has no annotations.
        """
        found = function.__annotations__
        return found if isinstance(found, dict) else {}
