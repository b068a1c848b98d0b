"""Read the properties of a shared library with binutils."""

import re
import subprocess
from pathlib import Path


def exported(library: Path) -> set[str]:
    """Return the names of the symbols that other libraries can use."""
    command = ["nm", "--dynamic", "--defined-only", "--extern-only", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def needed(library: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", _dynamic(library)))


def run_path(library: Path) -> list[str]:
    return re.findall(r"\((?:RPATH|RUNPATH)\)\s+Library r(?:un)?path: \[(.*)\]", _dynamic(library))


def newest_glibc(library: Path) -> tuple[int, int]:
    """Return the version of the newest glibc symbol that the library needs."""
    command = ["objdump", "--dynamic-syms", str(library)]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return max((int(major), int(minor)) for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", table))


def _dynamic(library: Path) -> str:
    command = ["readelf", "--dynamic", "--wide", str(library)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
