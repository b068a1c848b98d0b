"""`spdl advise`: run a PyTorch job, measure its loaders, and say whether they are the limit."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores
from spdl.cli._advise.call_lines import find_changes
from spdl.cli._advise.job import run_job
from spdl.cli._advise.measured import read_records
from spdl.cli._advise.page import headline, page
from spdl.cli._advise.verdict import judge
from spdl.cli._common.console import Console
from spdl.cli._common.errors import CommandError
from spdl.cli._common.json_file import STANDARD_OUTPUT, check_writable, write_figures
from spdl.cli._common.provenance import provenance

if TYPE_CHECKING:
    from argparse import Namespace

    from spdl.cli._advise.measured import Measured
    from spdl.cli._advise.verdict import Verdict

__all__ = ["advise"]

# Longer lines are hard to read.
_WIDEST = 80


def advise(options: Namespace) -> int:
    """Run the job, then print a page on stderr.

    Returns:
        The exit status of the job.

    Raises:
        CommandError: There is no job, it cannot be run, or the file for the figures cannot be written.
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


def _figures(measured: Measured, verdicts: list[Verdict], status: int) -> dict[str, Any]:
    loaders = []
    for loader, verdict in zip(measured.loaders, verdicts, strict=True):
        changes = find_changes(loader.description["file"], loader.description["line"])
        loaders.append(asdict(loader) | {"verdict": asdict(verdict), "changes": [asdict(change) for change in changes]})
    return {
        "verdict": verdicts[0].kind if verdicts else "no loader",
        "sentence": headline(measured, verdicts),
        "exit_status": status,
        "loaders": loaders,
        "ranks": [asdict(rank) for rank in measured.ranks],
        "torch": measured.torch,
        **provenance(),
    }
