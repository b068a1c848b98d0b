"""Where a measurement comes from: the facts that a reader needs to trust or repeat it."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

_DISTRIBUTIONS = ("spdl-turbo", "numpy", "torch", "pillow", "simplejpeg")


def provenance() -> dict[str, object]:
    """Describe the machine, the software and the command behind a measurement.

    Returns:
        A JSON-serialisable mapping: ``cpu`` (model name), ``cores`` (those this process may use), ``system``,
        ``python``, ``versions`` (of the distributions that are installed), ``commit`` (with ``-dirty`` appended where
        tracked files differ from it; None outside a checkout), ``command`` and ``date`` (UTC, ISO 8601).
    """
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": _commit(),
        "command": _command(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _versions() -> dict[str, str]:
    versions = {}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def _command() -> str:
    # Paths of the machine that measured say nothing to a reader: the interpreter and the script go by their names.
    return shlex.join([Path(sys.executable).name, Path(sys.argv[0]).name, *sys.argv[1:]])
