"""Record what the released spdl 0.8.0 prints: `python -m tests.compat.av.record [NAME...]`.

The release is installed into an environment of its own, with PyTorch for CPUs, in the user's cache.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from typing import TYPE_CHECKING

from tests.compat.av.comparison import EXPECTED, NAMES, prepare, run_program
from tests.io.kept import CACHE, digest, kept

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = ("spdl==0.8.0", "torch==2.13.0", "pillow", "numpy")
_INDEX = "https://download.pytorch.org/whl/cpu"


def _make_environment(folder: Path) -> None:
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--extra-index-url", _INDEX, *_PACKAGES], check=True)


def main(names: list[str]) -> int:
    """Record the programs of these names, or all."""
    folder = CACHE / "compat" / digest(*_PACKAGES, sys.version, sys.base_prefix) / "environment"
    python = kept(folder, _make_environment) / "bin" / "python"
    clips = prepare()
    EXPECTED.mkdir(exist_ok=True)
    failed = 0
    for name in names or NAMES:
        lines, why = run_program((str(python), "-I", "-W", "ignore"), name, clips)
        if why:
            failed += 1
            print(f"{name} failed after {len(lines)} lines: {why}")  # noqa: T201
        text = "".join(f"{label}: {value}\n" for label, value in lines.items())
        (EXPECTED / f"{name}.txt").write_text(text, encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
