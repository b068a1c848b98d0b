"""Hooks that write down the tasks they run around, and ops that fail."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from spdl.pipeline import TaskHook, is_eof, is_epoch_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spdl.pipeline import PipelineBuilder, StageInfo


class Diary(TaskHook):
    """A hook that writes down the tasks it runs around, and in which threads."""

    def __init__(self, info: StageInfo, lines: list[str]) -> None:
        self.name, self.lines = info.stage_name, lines
        self.threads: set[str] = set()

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.lines.append(f"enter {self.name}")
        try:
            yield
        finally:
            self.lines.append(f"leave {self.name}")

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.threads.add(threading.current_thread().name)
        shown = "EOF" if is_eof(input_item) else "EPOCH" if is_epoch_end(input_item) else repr(input_item)
        try:
            yield
        except BaseException as error:
            self.lines.append(f"{self.name} {shown} {type(error).__name__}")
            raise
        self.lines.append(f"{self.name} {shown}")


def hooked(
    builder: PipelineBuilder[Any, Any], *, num_threads: int = 2, timeout: float = 20
) -> tuple[list[Any], list[str], Any]:
    """Run a pipeline with a diary for each stage. Return its results, the lines of the diaries, and the pipeline."""
    lines: list[str] = []
    pipeline = builder.add_sink(3).build(num_threads=num_threads, task_hook_factory=lambda info: [Diary(info, lines)])
    with pipeline.auto_stop():
        items = list(pipeline.get_iterator(timeout=timeout))
    return items, lines, pipeline


def fail_on_one(x: int) -> int:
    if x == 1:
        raise ValueError("one")
    return x


async def fail_on_one_async(x: int) -> int:
    await asyncio.sleep(0)
    return fail_on_one(x)


class Swallowing(TaskHook):
    """A hook that swallows all exceptions."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        with suppress(Exception):
            yield
