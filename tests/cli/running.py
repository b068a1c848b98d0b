"""Run the command in a process of its own, or in this one."""

import io
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from spdl.cli import main

# A shell that runs the tests in the background makes them ignore Ctrl-C, and nohup the end of the terminal. Children
# inherit that.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
{before}
from spdl.cli import main
sys.exit(main())
"""
COMMAND = [sys.executable, "-c", PROGRAM.format(before="")]

# What there is to find: the pipelines of these processes, whatever other programs of the machine run.
_ONLY = """
from spdl import observe
find_pipelines = observe.find_pipelines
observe.find_pipelines = lambda pid=None: (
    find_pipelines(pid) if pid is not None else [each for number in {pids} for each in find_pipelines(number)]
)
"""


def run(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    timeout: float = 150,
    before: str = "",
    pids: Sequence[int] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `spdl ARGUMENTS` with its output in pipes, in this process's environment or another.

    Args:
        arguments: The words after the command's name.
        environment: The environment, if not this process's.
        timeout: For how many seconds it may run.
        before: Python code that its process runs first.
        pids: The only processes whose pipelines it finds; by default those that the machine has.
    """
    before += "" if pids is None else _ONLY.format(pids=list(pids))
    command = [sys.executable, "-c", PROGRAM.format(before=before), *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, env=environment
    )


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `spdl ARGUMENTS` in this process, which spares the start of another one."""
    words = list(map(str, arguments))
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        status = main(words)
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())


@contextmanager
def running(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start `spdl ARGUMENTS` with its output in pipes. If it still runs at the end of the block, it is killed."""
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
