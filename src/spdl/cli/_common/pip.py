"""Run the pip of this interpreter as a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec


class PipError(Exception):
    """Raised when pip is missing, fails or takes too long. The message is the last line of pip's own complaint."""


def pip(*arguments: str, timeout: float = 900) -> str:
    """Run `pip ARGUMENTS` and return its output.

    Raises:
        PipError: pip is missing, failed, or took longer than `timeout` seconds.
    """
    if find_spec("pip") is None:
        raise PipError(f"this Python has no pip (add it with: {sys.executable} -m ensurepip)")
    # Only one retry: without a network, pip would otherwise spend half a minute per package on retries.
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries=1", "--timeout=20")
    command = (sys.executable, "-m", "pip", *options, *arguments)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=os.environ | {"NO_COLOR": "1"},
        start_new_session=True,
    ) as running:
        try:
            stdout, stderr = running.communicate(timeout=timeout)
        except BaseException as error:
            # With --python, pip works in a child process, which would go on in a folder that others then take over.
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PipError(f"pip took longer than {timeout:.0f} s") from None
            raise
    if running.returncode:
        raise PipError(_complaint(stderr) or f"pip exited with status {running.returncode}")
    return stdout


def _complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1]
