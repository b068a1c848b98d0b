"""The tutorial's program for several processes runs under torchrun as it is written, with damaged photos too."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.io.images import make_jpeg

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


def program() -> str:
    found = re.search(
        r"^```\{code-block\} python\n:caption: train\.py\n\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1]


# When all is done, a thread of PyTorch's (`ProcessGroupGloo::runLoop`) lets go of a Python object. On a busy machine
# the interpreter may have ended by then. Python unwinds the thread, and C++ aborts the process.
ABORTED = "terminate called without an active exception"
TRIES = 5


# Three processes import PyTorch, possibly on a busy machine.
@pytest.mark.timeout(300)
def test_torchrun_runs_the_program_on_two_processes(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert "torchrun --nproc-per-node 2 train.py" in text
    (tmp_path / "train.py").write_text(program())
    for index in range(21):
        path = tmp_path / "photos" / ("cats" if index < 8 else "dogs") / f"{index:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no photo" if index in (3, 4, 5) else make_jpeg(60, 50, seed=index))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    # torchrun is the command of this module. The port is any that is free.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    tries = 0
    while True:
        tries += 1
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        if ABORTED not in done.stderr or tries == TRIES:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    # Both write to one pipe, so that their lines may be joined.
    expected = [f"rank {rank} of 2, epoch {epoch}: 3 steps" for rank in range(2) for epoch in range(2)]
    assert sorted(re.findall(r"rank \d of \d, epoch \d: \d+ steps", done.stdout)) == expected
    # Each rank logs a sample once, in whichever epoch it had it first.
    assert set(re.findall(r"photos/cats/(\d+)\.jpg', was replaced by sample", done.stderr)) == {"03", "04", "05"}
