"""Run a job of the docs and `spdl top` beside it on a terminal, and keep its screen as the picture of two pages.

Run it as `.venv/bin/python scripts/top_picture.py`, on an otherwise idle machine. It takes half a minute, and writes
docs/images/top.svg. Commit it, and look at it first.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import demo_picture
from printed_pages import PRINTED, SPDL, program

from spdl.cli._common.console import Console
from spdl.cli._demo.photos import demo_photos
from spdl.observe import find_pipelines

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "top.svg"
JOB = PRINTED["advise"]
OLD, NEW = "from torch.utils.data import DataLoader", "from spdl.dataloader import PyTorchDataLoader as DataLoader"
SECONDS = 2
# What the picture shows as the number of the process, how long that may take to begin, and how long its pipeline has
# run when it is looked at.
PID = "4711"
START_SECONDS, BEGUN_SECONDS = 60, 0.05


def wait_for_pipeline(pid: int) -> None:
    """Return when a process has run a pipeline for a moment."""
    deadline = time.monotonic() + START_SECONDS
    while not find_pipelines(pid):
        if time.monotonic() > deadline:
            raise SystemExit(f"process {pid} has no pipeline")
        time.sleep(0.05)
    time.sleep(BEGUN_SECONDS)


def screen(pid: int) -> str:
    """Return what `spdl top` shows of a process after some seconds."""
    terminal, side = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(demo_picture.WIDTH), "LINES": "40"}
    written = b""
    command = [SPDL, "top", str(pid), "--interval", "0.5"]
    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment) as top:
        os.close(side)
        time.sleep(SECONDS)
        top.send_signal(signal.SIGINT)
        while True:
            try:
                written += os.read(terminal, 65536)
            except OSError:  # On Linux: the other side is closed.
                break
    os.close(terminal)
    return demo_picture.play(written.decode()).replace(str(pid), PID)


def main() -> None:
    """Run both and write the picture."""
    with TemporaryDirectory() as folder:
        Path(folder, JOB.file).write_text(program(JOB).replace(OLD, NEW), encoding="utf-8")
        Path(folder, "photos").symlink_to(demo_photos(Console()))
        with subprocess.Popen([sys.executable, JOB.file], cwd=folder, stdout=subprocess.DEVNULL) as job:
            try:
                wait_for_pipeline(job.pid)
                shown = screen(job.pid)
            finally:
                job.kill()
    PICTURE.write_text(demo_picture.draw(shown, f"$ spdl top {PID} --interval 0.5"), encoding="utf-8")


if __name__ == "__main__":
    main()
