"""The error that a command reports as one line instead of a traceback."""

BAD_INPUT = 2
"""Exit status for bad input from the user: a folder, an option, a place to write to (argparse uses 2 as well)."""

FAILED = 1
"""Exit status for a failure despite correct input."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


class CommandError(Exception):
    """Raised by a command when the user can fix the situation. `spdl` prints the message on stderr and exits.

    Attributes:
        exit_status: The exit status of the process.
    """

    def __init__(self, message: str, *, exit_status: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_status = exit_status
