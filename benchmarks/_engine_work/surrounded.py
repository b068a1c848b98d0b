"""Measure items per second through stages that do nothing, inside hooks or measured for the log."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from outcome import figures
from stream import same
from usage import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def pipeline(*, items: int, stages: int, concurrency: int, threads: int, hooks: str) -> dict[str, float]:
    """Pass the items through so many equal stages.

    ``hooks`` says what each stage has: "counting" ones that count tasks, "default" ones that measure, or "none".
    """
    from spdl.pipeline import PipelineBuilder, TaskHook  # noqa: PLC0415 - the interpreter decides whose.

    class Counting(TaskHook):
        count = 0

        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:  # noqa: ARG002 - the contract.
            self.count += 1
            yield

    made: list[Counting] = []

    def counting(_info: object) -> list[Counting]:
        made.append(Counting())
        return made[-1:]

    factories = {"counting": {"task_hook_factory": counting}, "none": {"task_hook_factory": lambda _info: []}}
    builder: Any = PipelineBuilder().add_source(range(items))
    for _ in range(stages):
        builder.pipe(same, concurrency=concurrency)
    built = builder.add_sink(100).build(num_threads=threads, **factories.get(hooks, {}))
    cpu, begin = cpu_seconds(), time.perf_counter()
    with built.auto_stop():
        got = list(built)
    seconds, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    if any(hook.count != items for hook in made):
        raise SystemExit(f"The hooks saw {[hook.count for hook in made]} tasks out of {items}.")
    return figures(got, items, seconds, cpu)
