"""Record what the released spdl 0.8.0 prints: `python -m tests.compat.av.record [NAME...]`.

The release is installed into an environment of its own, with PyTorch, in the user's cache.
"""

from __future__ import annotations

import sys

from tests.compat.av.comparison import EXPECTED, NAMES, prepare, run_program

from spdl.cli._common.console import Console
from spdl.cli._demo.peers import REFERENCE, TORCH, install_torch, made_environment


def main(names: list[str]) -> int:
    """Record the programs of these names, or all."""
    python = made_environment("reference-torch", (*REFERENCE, *TORCH), Console(), install=install_torch)
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
