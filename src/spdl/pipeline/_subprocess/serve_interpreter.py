"""The main function of a worker interpreter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl.pipeline._transport.lane import Ends

from .outbox import Outbox
from .payload import Payload
from .serve import work

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["serve_interpreter"]


def serve_interpreter(payload: bytes, orders: int, lane: Sequence[int], buffer_size: int) -> None:
    """Work until the parent wants no more passes.

    Args:
        payload: The pickled function that makes the iterable, and the initializers.
        orders: The descriptor that the parent's orders come from.
        lane: The numbers of the lane's handles, which this interpreter copies.
        buffer_size: How many items may be under way.
    """
    orders = os.dup(orders)
    ends = Ends.copy_of(lane)
    outbox = Outbox(orders, ends, buffer_size, None, in_interpreter=True)
    try:
        work(outbox, Payload.of_pickle(payload))
    finally:
        outbox.close()
        os.close(orders)
