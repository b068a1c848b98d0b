"""The command in a process of its own."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

COMMAND = [sys.executable, "-c", "import sys; from spdl.cli import main; sys.exit(main())"]


def run(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `spdl ARGUMENTS` with its output in pipes, in this process's environment or another."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL, env=environment
    )
