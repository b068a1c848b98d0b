"""Where figures come from: without it a figure cannot be repeated."""

from __future__ import annotations

import datetime as dt
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import spdl
from spdl.cli._images_job import usable_cpus

DISTRIBUTIONS = ("numpy", "pillow", "torch")


def provenance() -> dict[str, object]:
    """Return the machine, the system, the versions and the date (UTC, ISO 8601), as JSON holds them."""
    return {
        "cpu": _cpu_model(),
        "cores": usable_cpus(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"spdl-turbo": spdl.__version__, **_versions()},
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
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
