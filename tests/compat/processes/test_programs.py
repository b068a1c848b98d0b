"""Programs that bring items from other processes, written for spdl 0.8.0, print what they print there.

`expected/NAME.txt` is what the released 0.8.0 printed: run `programs/NAME.py` in an environment with it to record that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in (HERE / "programs").glob("*.py"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_it_does_there(name: str) -> None:
    program = HERE / "programs" / f"{name}.py"
    done = subprocess.run([sys.executable, "-P", str(program)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = (HERE / "expected" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    if sys.version_info >= (3, 14):
        # What only later Pythons have is not refused there.
        expected = [line for line in expected if not line.endswith(": RuntimeError True")]
    assert done.stdout.splitlines() == expected
