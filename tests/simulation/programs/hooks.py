"""The hooks of the programs: some only count tasks, others are at fault."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from spdl.pipeline import StageInfo, TaskHook

from .behaviour import hook_cancels
from .expected import RAISE_AFTER
from .item import Item
from .lab import Lab, ProvokedError, keys_of

# For so many seconds a hook that is left late holds its stage.
LATE = 0.005
# For so many seconds a hook waits for a task.
PATIENCE = 0.002


class Counting(TaskHook):
    """A hook that counts tasks. Some raise, cancel their tasks or do not wait for them."""

    def __init__(self, lab: Lab, info: StageInfo) -> None:
        self.lab = lab
        self.kind = lab.program.hooks
        self.name = info.stage_name

    @contextlib.asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.lab.hook_balance[self.name] += 1
        # It is left without an exception, however the stage has ended, and the pipeline does not end before.
        yield
        if self.kind == "late":
            await asyncio.sleep(LATE)
        self.lab.hook_balance[self.name] -= 1
        if self.kind == "late":
            self.lab.rest.fail()
            raise ProvokedError("stage hook")

    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.lab.hook_tasks[self.name] += 1
        if self.kind == "raise" and self.lab.hook_tasks[self.name] == RAISE_AFTER:
            self.lab.fail_before_op(self.name, input_item)
            raise ProvokedError("hook")
        keys = keys_of(input_item) if isinstance(input_item, Item | list) else ()
        if self.kind == "cancel" and hook_cancels(self.name, keys):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if len(self.name) % 2:
                await asyncio.sleep(0)
        if self.kind == "timeout":
            async with asyncio.timeout(PATIENCE):
                yield
        else:
            yield
