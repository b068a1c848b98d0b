"""Work on video and audio with the functions that this project, the released reference and others have for it.

Run as `python _media_work JSON`, where the JSON object names the work and holds its arguments. It prints one line of
JSON. It runs in the contender's own interpreter, so nothing in this folder imports more than the contender, its
dependencies and the standard library. The folder beside it, which holds shared modules, is found in an isolated
interpreter, too.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).parent.with_name("_images_work")))


def main() -> None:
    """Do the work that the argument names, with the other arguments, and print its figures."""
    arguments = json.loads(sys.argv[1])
    module, _, function = arguments.pop("work").partition(".")
    print(json.dumps(getattr(import_module(module), function)(**arguments)), flush=True)
    # The libraries' work at the end of a process is not measured, and skipped.
    os._exit(0)


if __name__ == "__main__":
    main()
