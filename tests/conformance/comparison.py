"""How two readings of a file differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.conformance.reading import Arrays

Kind = Literal["different", "read", "refused"]


@dataclass(frozen=True)
class Difference:
    """A difference between what we and the oracle made of a file."""

    kind: Kind
    """Whether both read it, or only we, or only the oracle."""
    ours: str
    theirs: str
    largest: float | None = None
    """The largest difference of an element, if the arrays have one shape and dtype, and numbers."""
    mean: float | None = None


def compare(ours: Arrays, theirs: Arrays) -> Difference | None:
    """Return the worst difference, or None if the arrays are the same to the last bit, in the same order."""
    if list(ours) != list(theirs):
        return Difference("different", _names(ours, theirs), _names(theirs, ours))
    found = [difference for name in theirs if (difference := _compare(name, ours[name], theirs[name])) is not None]
    return next((each for kind in ("different", "read", "refused") for each in found if each.kind == kind), None)


def _names(names: Arrays, others: Arrays) -> str:
    only = [name for name in names if name not in others]
    if only:
        return f"{len(names)} arrays, among them {only[0]!r}"
    return f"{len(names)} arrays" + (", in another order" if len(names) == len(others) else "")


def _compare(name: str, ours: npt.NDArray[Any] | Exception, theirs: npt.NDArray[Any] | Exception) -> Difference | None:
    if isinstance(theirs, Exception):
        return None if isinstance(ours, Exception) else Difference("read", f"{name}: {ours.shape}", f"{name}: {theirs}")
    if isinstance(ours, Exception):
        return Difference("refused", f"{name}: {ours}", f"{name}: {theirs.dtype} {theirs.shape}")
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return Difference("different", f"{name}: {ours.dtype} {ours.shape}", f"{name}: {theirs.dtype} {theirs.shape}")
    if ours.tobytes() == theirs.tobytes():
        return None
    if ours.dtype.kind not in "buif":
        return Difference("different", f"{name}: other elements", f"{name}: {theirs.dtype} {theirs.shape}")
    levels = np.nan_to_num(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)))
    at = np.unravel_index(int(levels.argmax()), levels.shape)
    place = "" if not at else str([int(index) for index in at])
    return Difference(
        "different",
        f"{name}{place} = {ours[at]}",
        f"{name}{place} = {theirs[at]}",
        float(levels.max()),
        float(levels.mean()),
    )
