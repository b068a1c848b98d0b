"""Hooks as users write them, on real clocks and in simulated time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from spdl.pipeline import TaskHook, TaskStatsHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Bystander", "Derived", "Running"]


class Bystander(TaskHook):
    """A hook that does nothing, so that the event loop handles the stage's tasks."""

    @asynccontextmanager
    async def task_hook(self, _input_item: Any = None) -> AsyncIterator[None]:
        yield


class Derived(TaskStatsHook):
    """A hook that overrides nothing, so it reads the engine's counts."""


class Running(TaskStatsHook):
    """A hook that runs around each task and measures it itself."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        async with super().task_hook(input_item):
            yield
