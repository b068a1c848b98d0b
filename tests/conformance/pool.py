"""Worker processes under watch: one that crashes, hangs or uses up its memory costs one file."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.conformance.worker")

SECONDS = 60.0
"""How long a reader may take for one file."""

_START_SECONDS = 120.0


class Worker:
    """A process that examines files one after the other, and is replaced when it ends or hangs."""

    def __init__(self, command: Sequence[str] = COMMAND, seconds: float = SECONDS) -> None:
        self._command = command
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def examine(self, name: str, path: Path) -> dict[str, Any]:
        """Return what became of a file: the ``ways``, or a ``failure`` of the process with the ``reader`` to blame."""
        process = self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps([name, str(path)]).encode() + b"\n")
        process.stdin.flush()
        reader = "nobody yet"
        while True:
            try:
                line = self._lines.get(timeout=self._seconds)
            except queue.Empty:
                self.close()
                return {"failure": f"did not end within {self._seconds:.0f} seconds", "reader": reader}
            if not line:
                return {"failure": self._ending(), "reader": reader}
            message: dict[str, Any] = json.loads(line)
            if "ways" in message:
                return message
            reader = message["reads"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._wait(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        self._process = process
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=_pass_on, args=(process.stdout, self._lines), daemon=True)
        self._reader.start()
        if json.loads(self._lines.get(timeout=_START_SECONDS) or b"{}") != {"ready": True}:
            raise RuntimeError(f"the worker did not start: {self._ending()}")
        return process

    def _ending(self) -> str:
        assert self._process is not None
        status = self._wait(self._process)
        return f"ended with {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        status = process.wait()
        self._reader.join()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None
        return status


def _pass_on(lines: Iterable[bytes], to: queue.SimpleQueue[bytes]) -> None:
    for line in lines:
        to.put(line)
    to.put(b"")


def examine_all(
    files: Iterable[tuple[str, Path]], jobs: int, command: Sequence[str] = COMMAND, seconds: float = SECONDS
) -> Generator[tuple[Path, dict[str, Any]]]:
    """Yield what became of each file (format, path), in order, read by so many processes at once."""
    workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    everyone = [Worker(command, seconds) for _ in range(jobs)]
    for worker in everyone:
        workers.put(worker)

    def examine(file: tuple[str, Path]) -> tuple[Path, dict[str, Any]]:
        worker = workers.get()
        try:
            return file[1], worker.examine(*file)
        finally:
            workers.put(worker)

    try:
        with ThreadPoolExecutor(jobs) as threads:
            yield from threads.map(examine, files)
    finally:
        for worker in everyone:
            worker.close()
