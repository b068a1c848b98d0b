"""The record of the runs made so far: which seeds, on which commit, with how many findings."""

from __future__ import annotations

import fcntl
import json
import platform
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["add"]


def add(file: Path, *, seed: int, runs: int, steps: int, decisions: int, findings: int, seconds: float) -> None:
    """Add runs to a record. Several processes may do so at the same time."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True)
    entry = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "first_seed": seed,
        "runs": runs,
        "steps": steps,
        "decisions": decisions,
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
