"""Run one turn of one contender in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from spdl.cli._common.measure import session_memory
from spdl.cli._demo import contender

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.cli._demo.peers import Environment

SHARE_OF_WEIGHING = 0.05
"""The share of one processor that measuring memory may take. The system walks all pages of all processes for it."""
SHORTEST_PAUSE = 0.1
PATIENCE = 120.0
"""Seconds that importing, starting and ending may take together before the processes are killed."""


@dataclass(frozen=True)
class Work:
    """The work of every contender in every turn.

    Attributes:
        paths: The paths of the images.
        batch_size: Images per batch.
        size: Width and height of each image.
    """

    paths: Sequence[str]
    batch_size: int
    size: int


class Turn(NamedTuple):
    """The result of one turn.

    Attributes:
        contender: The contender's name and version, as it reports them.
        images: Images delivered.
        seconds: Seconds from the start of its workers to the last batch.
        cpu_seconds: User and system time of the process and its children, their start and end included.
        first_batch_seconds: Seconds from the start of its workers to the first batch.
        peak_memory: The most memory that its processes held together, in bytes. None if the system does not report it.
    """

    contender: str
    images: int
    seconds: float
    cpu_seconds: float
    first_batch_seconds: float
    peak_memory: int | None


class TurnFailed(Exception):  # noqa: N818 (a situation that is reported, not an error)
    """Raised when a contender's process fails or exceeds its time. The message is its last complaint, in one line."""


def take_turn(environment: Environment, work: Work, *, workers: int, seconds: float) -> Turn:
    """Run a contender once.

    Args:
        environment: The contender and its environment.
        work: The work to do.
        workers: Threads or processes that it uses.
        seconds: Seconds in which it begins new batches. Those begun are finished.

    Raises:
        TurnFailed: The contender failed, delivered nothing or exceeded its time.
    """
    with TemporaryDirectory(prefix="spdl-turn-") as folder, TemporaryFile() as said, TemporaryFile() as complaints:
        job = contender.Job(
            contender=environment.contender,
            paths=list(work.paths),
            batch_size=work.batch_size,
            size=work.size,
            workers=workers,
            seconds=seconds,
        )
        job_file = Path(folder, "job.json")
        job_file.write_text(json.dumps(job))
        with subprocess.Popen(
            [*environment.command, contender.__file__, str(job_file)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complaints,
            # A session of its own: Ctrl-C reaches only us, and its processes can be weighed and ended together.
            start_new_session=True,
        ) as process:
            patience = 2 * seconds + PATIENCE
            try:
                with _Scales(process.pid) as scales:
                    status = process.wait(patience)
            except subprocess.TimeoutExpired:
                raise TurnFailed(f"it took longer than {patience:g} s") from None
            finally:
                _kill(process)
        try:
            figures: contender.Figures = json.loads(_last_line(said))
            turn = Turn(**figures, peak_memory=scales.peak)
        except (ValueError, TypeError) as error:
            raise TurnFailed(_last_line(complaints) or f"it ended without a result (exit status {status})") from error
    if not turn.images:
        raise TurnFailed("it delivered no image")
    return turn


class _Scales:
    """Measures a session's memory again and again, from outside, so that this costs the contender nothing."""

    def __init__(self, session: int) -> None:
        self.peak: int | None = None
        self._session = session
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._weigh, name="spdl-scales", daemon=True)

    def _weigh(self) -> None:
        pause = SHORTEST_PAUSE
        while not self._ended.wait(pause):
            before = time.thread_time()
            memory = session_memory(self._session)
            if memory is not None:
                self.peak = max(self.peak or 0, memory)
            pause = max(SHORTEST_PAUSE, (time.thread_time() - before) / SHARE_OF_WEIGHING)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The group outlives its leader while a worker is left in it. The number is not reused before that.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(printed: IO[bytes]) -> str:
    printed.seek(0)
    lines = [line.strip() for line in printed.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
