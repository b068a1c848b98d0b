"""A process that examines files one after the other. It may crash or hang: another process watches it."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

MEMORY = 4 << 30
"""The address space that a worker may use, in bytes."""


def main() -> None:
    """Answer each line of JSON on the standard input with lines of JSON on the standard output.

    A request is a list of a format and a path. Before each reading comes a line with the reader's name, and at the end
    one with the result.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Libraries may write to the standard output too.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

        def say(message: object) -> None:
            answers.write(json.dumps(message) + "\n")
            answers.flush()

        from tests.conformance.examine import SUBJECTS, examine  # noqa: PLC0415 - the limits hold for imports too.

        say({"ready": True})
        for line in sys.stdin:
            name, path = json.loads(line)
            say({"ways": examine(SUBJECTS[name], Path(path), lambda reader: say({"reads": reader}))})


if __name__ == "__main__":
    main()
