"""Functions that run in a process of their own, for code that might end it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def say(text: str) -> None:
    """Print a line at once, for whoever reads what is left of this process."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def in_a_process(function: Callable[[], None], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a module's function of no arguments; what it prints last says how far it came.

    It is ended after `timeout` seconds, with an error.
    """
    program = f"from {function.__module__} import {function.__name__} as run; run()"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout
    )


def passes(function: Callable[[], None], timeout: float | None = None) -> str:
    """Likewise, for one that is to come to its end. Returns what it printed."""
    done = in_a_process(function, timeout)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}\nended with {done.returncode}"
    return done.stdout
