"""A process that multiprocessing has started ends, whatever of ours it leaves open."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from multiprocessing import get_all_start_methods
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("held_open.py")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "arguments", [[method] for method in get_all_start_methods()] + [["fork", "torch"]], ids="-".join
)
def test_processes_of_multiprocessing_end_with_all_left_open(arguments: list[str]) -> None:
    if "torch" in arguments and find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
