"""What is wrong with what came, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import show
from spdl.testing._leaves import freeze

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Hashable

__all__ = ["describe_difference"]

_SHOWN = 8


def describe_difference(
    place: str, expected: list[Any], found: list[Any], wanted: Counter[Hashable], got: Counter[Hashable]
) -> str:
    """Return what was lost and repeated, and where the sequence begins to differ.

    Args:
        place: The epoch, and where it was cut.
        expected: What came without cuts.
        found: What came with them.
        wanted: The items in the former.
        got: The items in the latter.
    """
    lost, repeated = wanted - got, got - wanted
    parts = [f"The loader does not resume exactly: {place}."]
    if lost:
        parts.append(f"Lost: {_list(lost)}.")
    if repeated:
        parts.append(f"Repeated: {_list(repeated)}.")
    if not (lost or repeated):
        index = next(
            (at for at, pair in enumerate(zip(expected, found, strict=False)) if freeze(pair[0]) != freeze(pair[1])),
            min(len(expected), len(found)),
        )
        parts.append(
            f"No item is lost or repeated, but the sequence differs from item {index} on: {_at(expected, index)} came "
            f"without a cut, {_at(found, index)} with it. If only the set of items matters, pass `ordered=False`."
        )
    return " ".join(parts)


def _list(items: Counter[Hashable]) -> str:
    each = [show(_thaw(item)) for item in items.elements()]
    more = f" and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
    return f"{', '.join(each[:_SHOWN])}{more}"


def _thaw(item: Hashable) -> Any:
    # The name of the type is of use to nobody.
    return item[1] if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) else item  # noqa: PLR2004


def _at(values: list[Any], index: int) -> str:
    return show(values[index]) if index < len(values) else "nothing"
