"""The record of the runs made so far: which seeds, on which commit, with how many findings."""

from __future__ import annotations

import fcntl
import json
import platform
import subprocess
import sysconfig
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["add"]


def add(file: Path, *, seed: int, runs: int, findings: int, seconds: float, **counts: int) -> None:
    """Add runs to a record, with what else was counted. Several processes may do so at the same time."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True)
    entry = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version() + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""),
        "first_seed": seed,
        "runs": runs,
        **counts,
        "findings": findings,
        "seconds": round(seconds),
    }
    with file.open("a+") as text:
        fcntl.flock(text, fcntl.LOCK_EX)
        text.seek(0)
        entries = json.loads(text.read() or "[]")
        text.truncate(0)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in [*entries, entry])
        text.write(f"[\n{rows}\n]\n")
