"""A contender's process that does one job after the other, so that its turns do not count what it imports again."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import suppress
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from _turns import TOO_LONG, JobFailedError, end_group, last_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LAST_WORDS = 5
"""Seconds for a process that answers no more to say why, and end."""


class JobServer:
    """A process that takes jobs as lines of JSON, and answers each with a line of JSON.

    Args:
        interpreter: The command that runs Python where the contender is installed.
        program: What it runs.
    """

    def __init__(self, interpreter: Sequence[str], program: Path) -> None:
        self._ended = False
        # Its end is that of the process: `close`.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*interpreter, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            # With its children, it is a group that can be ended as one.
            start_new_session=True,
        )

    def send(self, arguments: Mapping[str, Any]) -> None:
        """Give it a job, whose answer is still to be received."""
        with suppress(BrokenPipeError):  # Why it has ended is said by what it does not answer.
            print(json.dumps(arguments), file=self._process.stdin, flush=True)

    def receive(self) -> dict[str, Any]:
        """Wait for the answer.

        Raises:
            JobFailedError: It failed, or took too long. The process has ended.
        """
        late = Event()

        def give_up() -> None:
            late.set()
            self._end()

        timer = Timer(TOO_LONG, give_up)
        timer.daemon = True
        timer.start()
        try:
            answer = self._process.stdout.readline() if self._process.stdout else ""
        finally:
            timer.cancel()
        if not answer.endswith("\n"):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_WORDS)
            self._end()
            status = self._process.wait()
            self._said.seek(0)
            said = self._said.read()
            raise JobFailedError(
                f"it took longer than {TOO_LONG} s" if late.is_set() else last_words(said, status), said
            )
        figures: dict[str, Any] = json.loads(answer)
        return figures

    def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do one job.

        Raises:
            JobFailedError: It failed, or took too long. The process has ended.
        """
        self.send(arguments)
        return self.receive()

    def close(self) -> None:
        """End the process."""
        self._end()
        self._process.communicate()
        self._said.close()

    def _end(self) -> None:
        # Once: later its number may be another's.
        if not self._ended:
            self._ended = True
            end_group(self._process)
