"""`spdl advise`: runs a job whose loaders are measured, and prints the page."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores
from spdl.cli._advise.advice_page import find_changes, headline, page
from spdl.cli._advise.judge import LoaderVerdict, judge
from spdl.cli._advise.measured import MeasuredJob, read_records
from spdl.cli._common.console import STANDARD_OUTPUT, CommandError, Console, check_writable, write_figures
from spdl.cli._common.machine import provenance, run_program

if TYPE_CHECKING:
    from argparse import Namespace


_ON_PATH = Path(__file__).parent / "on_path"

# The signals that people and batch systems send to a job.
_PASSED_ON = (SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2)

_STANDARD_ERROR = 2
"""Its file descriptor: that of `sys.stderr` may be another one, or none, where a program calls this command."""


# Longer lines are hard to read.
_WIDEST = 80


def advise(options: Namespace) -> int:
    """Run the job, print a page on stderr, and return the job's exit status."""
    command = options.job[1:] if options.job[:1] == ["--"] else options.job
    if not command:
        raise CommandError("no job is given. Write its command after two dashes: spdl advise -- python train.py")
    check_writable(options.json)
    with tempfile.TemporaryDirectory(prefix="spdl-advise-", ignore_cleanup_errors=True) as folder:
        path = os.environ.get("PYTHONPATH")
        environment = {
            "PYTHONPATH": str(_ON_PATH) + (os.pathsep + path if path else ""),
            "SPDL_ADVISE": folder,
            "SPDL_ADVISE_TRIAL": str(options.trial_seconds),
        }
        # Figures on standard output are for a program, which reads nothing else.
        stdout = _STANDARD_ERROR if options.json == STANDARD_OUTPUT else None
        status = run_program(command, environment, _PASSED_ON, stdout=stdout)
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
