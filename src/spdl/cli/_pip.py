"""The pip of this interpreter, run as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec


class PipError(Exception):
    """Raised when pip is missing, fails or takes too long; the message is pip's own last complaint, in one line."""


def pip(*arguments: str, timeout: float = 900) -> str:
    """Run `pip ARGUMENTS` and return what it printed.

    Raises:
        PipError: pip is missing, failed, or took longer than `timeout` seconds.
    """
    if find_spec("pip") is None:
        raise PipError(f"this Python has no pip (add it with: {sys.executable} -m ensurepip)")
    # One retry: without a network pip would otherwise spend half a minute per package on being patient.
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries=1", "--timeout=20")
    command = (sys.executable, "-m", "pip", *options, *arguments)
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"NO_COLOR": "1"},
        )
    except subprocess.TimeoutExpired:
        raise PipError(f"pip took longer than {timeout:.0f} s") from None
    if done.returncode:
        raise PipError(_complaint(done.stderr) or f"pip exited with status {done.returncode}")
    return done.stdout


def _complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1]
