"""Type variables of the declarations. Items without a declared type are Any, not an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["T", "U"]

if TYPE_CHECKING:
    # Type checkers bring this module along. Python itself has defaults from 3.13 on.
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    U = TypeVar("U", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
    U = TypeVar("U")
