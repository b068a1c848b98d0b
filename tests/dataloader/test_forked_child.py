"""Test that a forked child which drops its copy of an iteration ends in silence, and that the parent goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.timeout(120),
]

PROGRAM = """
import gc, io, os, sys, warnings
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
# Newer Pythons warn of forks in processes that have threads.
warnings.simplefilter("ignore")

class Numbers(list):
    pass

def numbers():
    return iter(range(40))

def same(x):
    return x

def pipeline(builder):
    with builder.add_sink(2).build(num_threads=2).auto_stop() as running:
        yield from running

def images():
    from PIL import Image
    from spdl.dataloader import ImageLoader
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    return ImageLoader([file.getvalue()] * 40, size=(8, 8), batch_size=1)

def main():
    items = iter({iterator})
    next(items)
    child = os.fork()
    if not child:
        del items
        gc.collect()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sum(1 for _ in items))

if __name__ == "__main__":
    main()
"""

LOADER = "__import__('spdl.dataloader').dataloader.{}"
ITERATORS = {
    "pipeline": "pipeline(PipelineBuilder().add_source(range(40)).pipe(same))",
    "region": (
        "pipeline(PipelineBuilder().add_source(range(40)).to(ProcessPoolExecutorConfig(1)).pipe(same).to(MAIN_PROCESS))"
    ),
    "subprocess": "iterate_in_subprocess(numbers)",
    "loader": LOADER.format("DataLoader(range(40), preprocessor=same, batch_size=1)"),
    "tuned loader": LOADER.format("DataLoader(range(40), preprocessor=same, num_threads='auto')"),
    "images": "images()",
    "torch's threads": LOADER.format("PyTorchDataLoader(Numbers(range(40)), num_workers=2, workers='thread')"),
    "torch's processes": LOADER.format("PyTorchDataLoader(Numbers(range(40)), num_workers=2, workers='process')"),
}


@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iteration_is_dropped_in_silence(kind: str, tmp_path: Path) -> None:
    if kind.startswith("torch"):
        pytest.importorskip("torch", reason="needs torch")
    if kind == "images":
        pytest.importorskip("PIL", reason="needs Pillow")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("{iterator}", ITERATORS[kind]))
    command = [sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.stdout, ended.stderr) == ("0 39\n", "")
