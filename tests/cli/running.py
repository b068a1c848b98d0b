"""Run the command in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# A shell that runs the tests in the background makes them ignore Ctrl-C, and nohup the end of the terminal. Children
# inherit that.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from spdl.cli import main
sys.exit(main())
"""
COMMAND = [sys.executable, "-c", PROGRAM]


def run(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, timeout: float = 50
) -> subprocess.CompletedProcess[str]:
    """Run `spdl ARGUMENTS` with its output in pipes, in this process's environment or another, for so many seconds."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, env=environment
    )


@contextmanager
def running(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start `spdl ARGUMENTS` with its output in pipes. If it still runs at the end of the block, it is killed."""
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
