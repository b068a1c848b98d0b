"""The work of `out_of_process.py`, on the public API that this project and the released reference share.

Run as `python _out_of_process_work JSON`, where the JSON object names the work and holds its arguments. It prints one
line of JSON.
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
