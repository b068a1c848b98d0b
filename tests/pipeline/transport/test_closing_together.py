"""Two threads close the same end of a channel at the same time."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from spdl.pipeline._transport.channel import ParentEnd

if TYPE_CHECKING:
    from types import FrameType


def test_an_end_is_closed_once() -> None:
    together = threading.Barrier(2)
    raised: list[BaseException] = []

    def meet(frame: FrameType, event: str, _: Any) -> None:
        # Both have found it open.
        if event == "call" and frame.f_code is ParentEnd._close.__code__:
            together.wait(60)

    def close(end: ParentEnd) -> None:
        sys.settrace(meet)
        try:
            end.close()
        except BaseException as error:  # noqa: BLE001 - it is compared.
            raised.append(error)
        finally:
            sys.settrace(None)

    # The descriptors that one of them has closed are those of other files when the other one comes to them.
    for _ in range(20):
        sign, other = os.pipe()
        end = ParentEnd()
        end.started_here(sign)
        closers = [threading.Thread(target=close, args=(end,)) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(60)
        end.worker_end.close()
        os.close(sign)
        os.close(other)
    assert raised == []
