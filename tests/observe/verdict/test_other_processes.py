"""`spdl why` on scripts whose ops run in other processes, from outside."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.cli.running import call
from tests.observe.asking import ask_until
from tests.observe.programs import observed, running_script

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.timeout(240)]

SCRIPT = """
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

OBJECTS = [{{"name": str(number), "values": [float(value) for value in range(20)]}} for number in range(20_000)]


def work(item):
    {op}


if __name__ == "__main__":
    builder = PipelineBuilder().add_source(range(10**6))
    if sys.argv[1] == "pool":
        builder.pipe(work, executor=ProcessPoolExecutor(2), concurrency=2)
    else:
        builder.to(ProcessPoolExecutorConfig(2)).pipe(work).to(MAIN_PROCESS)
    with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
        for _ in pipeline:
            pass
"""


def why(tmp_path: Any, kind: str, op: str, expected: tuple[str, str]) -> dict[str, Any]:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(op=op))
    with running_script(script, kind) as process:
        observed(process, lambda seen: seen.delivered >= 10)
        verdict: dict[str, Any] = ask_until(
            lambda: json.loads(call("why", str(process.pid), "--json", "--seconds", "2").stdout),
            lambda verdict: (verdict["kind"], verdict["stage"]) == expected,
        )
    return verdict


# What pickling takes beside what other programs leave is a matter of real rates.
@pytest.mark.long
@pytest.mark.parametrize("kind", ["pool", "region"])
def test_many_objects_take_their_time_on_the_way(kind: str, tmp_path: Any) -> None:
    expected = ("pickling", "work" if kind == "pool" else "region(work)")
    verdict = why(tmp_path, kind, "return OBJECTS", expected)
    assert (verdict["kind"], verdict["stage"]) == expected, verdict
    assert "arrays instead of many objects" in verdict["remedy"]


@pytest.mark.parametrize("kind", ["pool", "region"])
def test_ops_that_wait_there_are_not_pickled_for_long(kind: str, tmp_path: Any) -> None:
    verdict = why(tmp_path, kind, "time.sleep(0.05); return item", ("I/O", "work"))
    assert (verdict["kind"], verdict["stage"]) == ("I/O", "work"), verdict
