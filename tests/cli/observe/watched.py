"""Programs to watch, and what `spdl why` finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.running import call
from tests.observe.programs import observed

if TYPE_CHECKING:
    import subprocess


PLANTED = Path(__file__).parents[2] / "observe" / "planted"

LONG_NAMES = """
import itertools, time
from spdl.pipeline import PipelineBuilder

def op(number):
    time.sleep(0.005)
    return number

builder = PipelineBuilder().add_source(itertools.count())
for number in range(10):
    builder.pipe(op, name=f"a_stage_with_a_name_that_is_longer_than_a_column_{number}", concurrency=2)
with builder.add_sink(4).build(num_threads=20).auto_stop() as pipeline:
    for _ in pipeline:
        pass
"""


def begun(process: subprocess.Popen[bytes]) -> None:
    observed(process, lambda seen: seen.delivered >= 5)


STUCK = """
import ctypes, time
from spdl.pipeline import PipelineBuilder

def parse(item):
    if item == 50:
        ctypes.PyDLL(None).sleep(1000)
    time.sleep(0.002)
    return item

pipeline = PipelineBuilder().add_source(range(10**9)).pipe(parse, name="parse").add_sink().build(num_threads=2)
with pipeline.auto_stop():
    for _ in pipeline:
        pass
"""

TWO = STUCK.replace(
    "with pipeline",
    "other = PipelineBuilder().add_source(iter(int, 1)).add_sink()\n"
    "other = other.build(num_threads=1)\nother.start()\nother.get_item()\nwith pipeline",
).replace("== 50", "< 0")


def why(pid: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call("why", str(pid), "--json").stdout)
    return found
