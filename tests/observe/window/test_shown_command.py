"""What is shown of the command that a watched process runs."""

from __future__ import annotations

import sys

import pytest
from tests.observe.programs import observed, running

PIPELINE = """
import time
from spdl.pipeline import PipelineBuilder
with PipelineBuilder().add_source(iter(lambda: 1, 0)).add_sink(1).build(num_threads=1).auto_stop():
    time.sleep(600)
"""

# As `setproctitle` does: the words of the command lie in the process's own memory.
TITLE = """
import ctypes
from pathlib import Path
fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
begin, end = int(fields[45]), int(fields[46])
ctypes.memset(begin, 0, end - begin)
ctypes.memmove(begin, b"ray::Loader", 11)
"""


def test_the_command_is_shown_without_the_interpreter() -> None:
    with running(PIPELINE) as process:
        pipeline = observed(process, lambda _: True)
        assert pipeline.head.command[0] == "-c"
        assert pipeline.head.command[1].startswith("\nimport time")


@pytest.mark.skipif(sys.platform != "linux", reason="the title lies elsewhere")
def test_a_process_that_has_given_itself_a_title_is_shown_by_it() -> None:
    with running(TITLE + PIPELINE) as process:
        assert observed(process, lambda _: True).head.command == ("ray::Loader",)
