"""Test what becomes of a child that an op has forked and that comes back from the op."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

# The parent prints the statuses of the children, and then what it has read.
PROGRAM = """
import asyncio, concurrent.futures, contextlib, os, sys, time, warnings
from spdl.pipeline import PipelineBuilder, TaskHook
# Newer Pythons warn of forks in processes that have threads.
warnings.simplefilter("ignore")
statuses = []

def fork(item):
    if item % 2 == 0:
        return item
    child = os.fork()
    if not child:
        {child}
    deadline = time.monotonic() + 10
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
        time.sleep(0.01)
    statuses.append(os.waitstatus_to_exitcode(ended[1]))
    return item

async def fork_later(item):
    return fork(item)

async def fork_in_steps(item):
    yield fork(item)

def fork_in_step(item):
    yield fork(item)

class OtherExecutor(concurrent.futures.Executor):
    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(2)

    def submit(self, *args, **kwargs):
        return self.pool.submit(*args, **kwargs)

class Hook(TaskHook):
    @contextlib.asynccontextmanager
    async def task_hook(self, input_item=None):
        yield

class Source:
    def __iter__(self):
        return map(fork, range(6))

class AsyncSource:
    async def __aiter__(self):
        for item in range(6):
            yield fork(item)

hooks = dict(task_hook_factory=lambda _: [Hook()])
pipeline = {pipeline}
with pipeline.auto_stop():
    items = sorted(pipeline.get_iterator(timeout=30))
print(statuses, items)
"""

NUMBERS = "PipelineBuilder().add_source(range(6))"
END = "add_sink().build(num_threads=2"
PIPELINES = {
    "op": f"{NUMBERS}.pipe(fork, concurrency=2).{END})",
    "last of several ops": f"{NUMBERS}.pipe(abs).pipe(fork).pipe(abs).{END})",
    "timed op": f"{NUMBERS}.pipe(fork, timeout=60).{END})",
    "generator": f"{NUMBERS}.pipe(fork_in_step).{END})",
    "async op": f"{NUMBERS}.pipe(fork_later).{END})",
    "async generator": f"{NUMBERS}.pipe(fork_in_steps).{END})",
    "coroutine of a lambda": f"{NUMBERS}.pipe(lambda item: fork_later(item)).{END})",
    "op in threads": f"{NUMBERS}.pipe(fork, executor=concurrent.futures.ThreadPoolExecutor(2)).{END})",
    "op in another executor": f"{NUMBERS}.pipe(fork, executor=OtherExecutor()).{END})",
    "hooked op": f"{NUMBERS}.pipe(fork).{END}, **hooks)",
    "hooked op in threads": f"{NUMBERS}.pipe(fork, executor=concurrent.futures.ThreadPoolExecutor(2)).{END}, **hooks)",
    "hooked async op": f"{NUMBERS}.pipe(fork_later).{END}, **hooks)",
    "hooked async generator": f"{NUMBERS}.pipe(fork_in_steps).{END}, **hooks)",
    "source": f"PipelineBuilder().add_source(Source()).pipe(abs).{END})",
    "dedicated source": f"PipelineBuilder().add_source(Source(), dedicated_thread=True).pipe(abs).{END})",
    "async source": f"PipelineBuilder().add_source(AsyncSource()).pipe(abs).{END})",
}


def run(pipeline: str, child: str) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(PROGRAM).replace("{child}", child).replace("{pipeline}", PIPELINES[pipeline])
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("child", ["return item", "raise ValueError(item)"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_child_that_comes_back_ends_and_says_why(pipeline: str, child: str) -> None:
    done = run(pipeline, child)
    assert done.stdout == "[1, 1, 1] [0, 1, 2, 3, 4, 5]\n", done.stderr
    assert done.returncode == 0
    assert done.stderr.count("has forked this process") == 3


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_child_can_exit(pipeline: str) -> None:
    done = run(pipeline, "sys.exit(7)")
    assert done.stdout == "[7, 7, 7] [0, 1, 2, 3, 4, 5]\n", done.stderr
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("child", "status", "message"), [("sys.exit()", 0, ""), ("sys.exit('not ready')", 1, "not ready\n" * 3)]
)
def test_a_child_exits_as_a_program_does(child: str, status: int, message: str) -> None:
    done = run("op", child)
    assert done.stdout == f"{[status] * 3} [0, 1, 2, 3, 4, 5]\n", done.stderr
    assert (done.returncode, done.stderr) == (0, message)
