"""The command in a process of its own."""

import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-c", "import sys; from spdl.cli import main; sys.exit(main())"]


def run(*arguments: str | Path, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    """Run `spdl ARGUMENTS` with its output in pipes."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
    )
