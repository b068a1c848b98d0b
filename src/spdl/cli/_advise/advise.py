"""`spdl advise`: runs a job whose loaders are measured, and prints the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores
from spdl.cli._advise.advice_page import headline, page
from spdl.cli._advise.call_lines import find_changes
from spdl.cli._advise.judge import LoaderVerdict, judge
from spdl.cli._advise.measured import MeasuredJob, read_records
from spdl.cli._common.console import STANDARD_OUTPUT, CommandError, Console, check_writable, write_figures
from spdl.cli._common.machine import provenance

if TYPE_CHECKING:
    from argparse import Namespace


_ON_PATH = Path(__file__).parent / "on_path"

# The signals that people and batch systems send to a job.
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2")

_STANDARD_ERROR = 2
"""Its file descriptor: that of `sys.stderr` may be another one, or none, where a program calls this command."""


def run_job(command: Sequence[str], records: Path, trial_seconds: float, *, output_to_stderr: bool = False) -> int:
    """Run a command whose Python processes measure their loaders.

    Args:
        command: The command and its arguments.
        records: A folder for the measurements.
        trial_seconds: How long other ways to load are tried, each; 0 for not at all.
        output_to_stderr: Whether what it writes to standard output goes to standard error.

    Returns:
        Its exit status: 128 and the signal's number if a signal ended it, as shells report it.

    Raises:
        CommandError: The command cannot be run.
    """
    path = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONPATH": str(_ON_PATH) + (os.pathsep + path if path else ""),
        "SPDL_ADVISE": str(records),
        "SPDL_ADVISE_TRIAL": str(trial_seconds),
    }
    try:
        process = subprocess.Popen(command, env=environment, stdout=_STANDARD_ERROR if output_to_stderr else None)
    except OSError as error:
        raise CommandError(
            f"{command[0]!r} cannot be run: {error.strerror}. Give the command as in a shell."
        ) from error
    with process, _signals_go_to(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _signals_go_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        # A terminal sends its signals to the job, too.
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    previous = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Return whether this process belongs to those that get the signals of its terminal."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


# Longer lines are hard to read.
_WIDEST = 80


def advise(options: Namespace) -> int:
    """Run the job, then print a page on stderr.

    Returns:
        The exit status of the job.

    Raises:
        CommandError: The job is missing or cannot be run, or the file for the figures cannot be written.
    """
    command = options.job[1:] if options.job[:1] == ["--"] else options.job
    if not command:
        raise CommandError("no job is given. Write its command after two dashes: spdl advise -- python train.py")
    check_writable(options.json)
    with tempfile.TemporaryDirectory(prefix="spdl-advise-", ignore_cleanup_errors=True) as folder:
        # Figures on standard output are for a program, which reads nothing else.
        status = run_job(command, Path(folder), options.trial_seconds, output_to_stderr=options.json == STANDARD_OUTPUT)
        measured = read_records(Path(folder))
    cores = available_cores() / measured.ranks_at_once
    verdicts = [judge(loader, cores) for loader in measured.loaders]
    width = Console(on_stderr=True).width
    if width is not None:
        width = min(_WIDEST, width)
    print(f"\nspdl advise\n\n{page(measured, verdicts, cores, width)}", file=sys.stderr)
    if options.json is not None:
        write_figures(options.json, _figures(measured, verdicts, status), Console(on_stderr=True))
    return status


def _figures(measured: MeasuredJob, verdicts: list[LoaderVerdict], status: int) -> dict[str, Any]:
    loaders = []
    for loader, verdict in zip(measured.loaders, verdicts, strict=True):
        changes = find_changes(loader.description["file"], loader.description["line"])
        loaders.append(asdict(loader) | {"verdict": asdict(verdict), "changes": [asdict(change) for change in changes]})
    return {
        "verdict": verdicts[0].limit.kind if verdicts else "no loader",
        "sentence": headline(measured, verdicts),
        "exit_status": status,
        "loaders": loaders,
        "ranks": [asdict(rank) for rank in measured.ranks],
        "torch": measured.torch,
        **provenance(),
    }
