"""Run a program on a PyTorch for CPUs with PyPI's torchvision, which is built for CUDA and does not load there.

Its transforms are Python code. They only need two operators to exist, which the part that does not load would register.

Run it as `python beside_torchvision.py PROGRAM`, or import it before torchvision.
"""

from __future__ import annotations

import runpy
import sys
from importlib.metadata import version

import torch

# A library's operators are gone when nothing holds it.
OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
if torch.version.cuda is None and "+" not in version("torchvision"):
    for name in ("nms", "qnms"):
        OPERATORS.define(f"{name}(Tensor boxes) -> Tensor")

if __name__ == "__main__":
    program = sys.argv[1]
    runpy.run_path(program, run_name="__main__")
