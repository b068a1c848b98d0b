"""Whole loaders of JPEG photos, ours and others: their speed alone, and beside a training loop.

Run as `python _loaders_work`. It reads jobs from its input, each a line of JSON: an object that names the work and
holds its arguments. It answers each with a line of JSON, until there are no more. It runs in the contender's own
interpreter, so nothing in this folder imports more than the contender, its dependencies and the standard library. The
folders beside it, which hold shared modules, are found in an isolated interpreter, too.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

sys.path += [str(Path(__file__).parent.with_name(name)) for name in ("_images_work", "_engine_work")]


def main() -> None:
    """Do each job, and print its figures."""
    # Keep output that libraries print apart from the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # When this process is gone, nobody should wait for an answer only because a child still holds the pipe.
    os.register_at_fork(after_in_child=lambda: os.close(answers.fileno()))
    for line in sys.stdin:
        arguments = json.loads(line)
        module, _, function = arguments.pop("work").partition(".")
        print(json.dumps(getattr(import_module(module), function)(**arguments)), file=answers, flush=True)
    # The libraries' work at the end of a process is not measured, and skipped.
    os._exit(0)


if __name__ == "__main__":
    main()
