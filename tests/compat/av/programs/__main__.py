"""Run a program of this folder: `python -I programs NAME CLIPS MADE`.

CLIPS is the folder of clips to read, MADE an empty one to write to. The program prints lines of the form
"label: value". It runs with any spdl that has the interface of the released 0.8.0, so it imports that, NumPy and the
standard library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    name, clips, made = sys.argv[1:]
    import_module(name).main(Path(clips), Path(made))


if __name__ == "__main__":
    main()
