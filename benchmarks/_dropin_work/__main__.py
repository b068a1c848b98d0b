"""One turn of one loader that takes PyTorch's arguments.

Run as `python _dropin_work JOB`, where JOB is a JSON object that names the work and holds its arguments. It prints the
figures as a line of JSON. It runs in the contender's own interpreter, so nothing in this folder imports more than the
contender, PyTorch, Pillow and the standard library.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).parent.with_name("_images_work")))


def main() -> None:
    """Do the job, and print its figures."""
    arguments = json.loads(sys.argv[1])
    print(json.dumps(import_module(arguments.pop("work")).measure(**arguments)), flush=True)


if __name__ == "__main__":
    main()
