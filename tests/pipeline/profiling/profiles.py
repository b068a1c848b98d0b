"""Short profiles, and ops that record their calls."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from spdl.pipeline import (
    PipelineBuilder,
    ProfileResult,
    profile_pipeline,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = [32, 16, 8, 4, 1]


def profile(builder: PipelineBuilder[Any, Any], num_inputs: int = 1000, **kwargs: Any) -> list[ProfileResult]:
    return profile_pipeline(builder.add_sink().get_config(), num_inputs, **kwargs)


def concurrencies(result: ProfileResult) -> list[int]:
    return [it.concurrency for it in result.stats]


class Notes:
    """An op that passes its items on and records them."""

    def __init__(self) -> None:
        self.given: set[Any] = set()

    def __call__(self, x: Any) -> Any:
        self.given.add(tuple(x) if isinstance(x, list) else x)
        return x


def napping(seconds: float) -> Callable[[Any], Any]:
    def nap(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return nap


class Gauge:
    """An op whose calls wait, once, until as many run at the same time as are expected."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.expected = 1
        self.running = self.most = 0

    def __call__(self, x: Any) -> Any:
        with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.expected, timeout=10)
        time.sleep(0.001)
        with self.changed:
            self.running -= 1
        return x


class AsyncGauge:
    """The same on the event loop."""

    def __init__(self) -> None:
        self.expected = 1
        self.running = self.most = 0

    async def __call__(self, x: Any) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        end = time.monotonic() + 10
        while self.most < self.expected and time.monotonic() < end:  # noqa: ASYNC110 - the hook's thread begins anew.
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        self.running -= 1
        return x
