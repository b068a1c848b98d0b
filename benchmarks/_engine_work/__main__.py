"""The engine's workloads, on the public API that this project and the released reference share.

Run as `python _engine_work JSON`, where the JSON object names the work and holds its arguments. It prints one line of
JSON. It runs in the contender's own interpreter, so nothing in this folder imports more than `spdl.pipeline` and the
standard library. Because the folder itself is run, its modules find each other in an isolated interpreter, too.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module


def main() -> None:
    """Do the work that the argument names, with the other arguments, and print its figures."""
    arguments = json.loads(sys.argv[1])
    module, _, function = arguments.pop("work").partition(".")
    print(json.dumps(getattr(import_module(module), function)(**arguments)))


if __name__ == "__main__":
    main()
