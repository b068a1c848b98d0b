"""The one error a command reports as a line instead of a traceback."""

BAD_INPUT = 2
"""Exit status for what the user gave: a folder, an option, a place to write to (argparse uses 2 as well)."""

FAILED = 1
"""Exit status for what went wrong although the input was right."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


class CommandError(Exception):
    """Raised by a command for a situation its user can mend; `spdl` prints the message on stderr and exits.

    Attributes:
        exit_status: What the process exits with.
    """

    def __init__(self, message: str, *, exit_status: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_status = exit_status
