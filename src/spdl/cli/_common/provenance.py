"""The origin of figures: without it, a figure can be neither trusted nor repeated."""

from __future__ import annotations

import datetime as dt
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import spdl
from spdl._cores import available_cores
from spdl.cli._common.cache import abbreviated

DISTRIBUTIONS = ("numpy", "pillow", "simplejpeg", "torch")


def provenance() -> dict[str, object]:
    """Describe the machine, the software and the command behind a measurement.

    Returns:
        A dict that JSON can hold: `cpu` (model name), `cores` (those this process may use), `system`, `python`,
        `versions` (of the distributions that are installed), `commit` (with `-dirty` appended if tracked files differ
        from it; None outside a checkout of this project), `command` and `date` (UTC, ISO 8601).
    """
    return {
        "cpu": _cpu_model(),
        "cores": available_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"spdl-turbo": spdl.__version__, **_versions()},
        "commit": _commit(),
        "command": _command(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str]:
    versions = {}
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str | None:
    # If this file is installed in an environment inside another project's checkout, it is not a file of that project.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    return _git("describe", "--always", "--abbrev=12", "--dirty", "--exclude=*")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - any git that the user has.
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _command() -> str:
    # Paths of the measuring machine tell a reader nothing, and may reveal too much.
    program, *arguments = sys.argv
    shown = [abbreviated(it) if it.startswith("/") else it for it in arguments]
    return shlex.join([Path(sys.executable).name, Path(program).name, *shown])
