"""A contender's process that does one job after another, so that its turns do not measure repeated imports."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import suppress
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from _turns import TOO_LONG, JobFailedError, end_group, last_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LAST_WORDS = 5
"""Seconds that a process which no longer answers has to say why, and end."""


class JobServer:
    """A process that takes jobs as lines of JSON, and answers each with a line of JSON.

    Args:
        interpreter: The command that runs Python where the contender is installed.
        program: The program to run.
    """

    def __init__(self, interpreter: Sequence[str], program: Path) -> None:
        self._ended = False
        # The file is closed with the process, in `close`.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*interpreter, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            # The process and its children form a group that can be ended as one.
            start_new_session=True,
        )

    def send(self, arguments: Mapping[str, Any]) -> None:
        """Give the process a job. Its answer is received later."""
        with suppress(BrokenPipeError):  # `receive` then reports why the process has ended.
            print(json.dumps(arguments), file=self._process.stdin, flush=True)

    def receive(self) -> dict[str, Any]:
        """Wait for the answer.

        Raises:
            JobFailedError: The job failed, or took too long. The process has ended.
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
                f"it took longer than {TOO_LONG} s" if late.is_set() else last_output(said, status), said
            )
        figures: dict[str, Any] = json.loads(answer)
        return figures

    def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do one job.

        Raises:
            JobFailedError: The job failed, or took too long. The process has ended.
        """
        self.send(arguments)
        return self.receive()

    def close(self) -> None:
        """End the process."""
        self._end()
        self._process.communicate()
        self._said.close()

    def _end(self) -> None:
        # Only once: later, another process may have its number.
        if not self._ended:
            self._ended = True
            end_group(self._process)
