"""The check of an order of rows that a user gives to a loader of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import refuse
from spdl.io._shared import PackingRule
from spdl.source import PackedOrder
from spdl.source._shared import documents_of, lengths_of_order, packed_parts, rule_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_order(order: Any, lengths: NDArray[Any], given: PackingRule, *, shuffle: bool, window: int | None) -> None:
    """Raise unless an order is of rows of documents of these lengths, and agrees with the other arguments."""
    parts = packed_parts(order)
    if not parts:
        accepted = "an `spdl.source.PackedOrder` of the lengths of token files, a `MixedOrder` of several, or None"
        refuse(TypeError, "order", accepted, order)
    if shuffle:
        refuse(ValueError, "shuffle", "False with an `order`, which says itself what is shuffled", shuffle)
    rules = {rule_of(part) for part in parts}
    if len(rules) > 1:
        refuse(ValueError, "order", "a mix of orders that pack in one way", ", ".join(rule.name for rule in rules))
    (rule,) = rules
    if rule.length != given.length:
        refuse(ValueError, "order", f"an order of rows of {given.length} tokens, as `length` says", order)
    if rule.align != given.align:
        refuse(ValueError, "align", f"{rule.align}, as in the `order`", given.align)
    # What is left at its default says nothing.
    default = PackingRule.of(rule.length, algorithm="best-fit", split=None, align=rule.align)
    if given not in (rule, default):
        accepted = f"left out with an `order`, which packs {rule.name}"
        refuse(ValueError, "packing", f"{accepted}, or to agree with it", given.name)
    if window is not None:
        refuse(ValueError, "window", "left out with an `order`, which has its own", window)
    _check_lengths(parts, lengths, order)


# So many lengths are compared at once.
_COMPARED = 1 << 20


def _check_lengths(parts: list[PackedOrder], lengths: NDArray[Any], order: Any) -> None:
    """Raise if the rows of orders are not of documents of these lengths: other tokens would be read in silence."""
    packed = sum(map(documents_of, parts))
    if packed != lengths.size:
        accepted = f"an order of the {lengths.size} documents of `source`"
        refuse(ValueError, "order", accepted, f"one of {packed}: {order}")
    begin = 0
    for part in parts:
        own = lengths_of_order(part)
        for first in range(0, own.size, _COMPARED):
            ours = own[first : first + _COMPARED]
            found = lengths[begin + first : begin + first + ours.size]
            if np.array_equal(ours, found):
                continue
            # A document of 0 tokens is left out.
            differ = np.flatnonzero((ours != found) & (ours != 0))
            if differ.size:
                at = int(differ[0])
                raise ValueError(
                    f"`order` was made for other documents than `source` has: document {begin + first + at} has "
                    f"{found[at]} tokens, and {ours[at]} in the order. `source` must have the documents of its parts "
                    "one after the other, in the same order of files; a length of 0 leaves a document out."
                )
        begin += own.size
