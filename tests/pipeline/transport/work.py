"""What the tests of channels do in worker processes, and how they start and watch them."""

from __future__ import annotations

import json
import multiprocessing
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.pipeline._transport.channel import ParentEnd, WorkerEnd
from spdl.pipeline._transport.signals import PeerGone

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

MB = 1 << 20


def record(name: str, **figures: Any) -> None:
    """Write what a long run has found, if the environment names a folder for it."""
    folder = os.environ.get("SPDL_RECORDS")
    if folder:
        Path(folder, f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def wait_idly(end: WorkerEnd) -> None:
    """Receive what does not come."""
    end.begin()
    with suppress(PeerGone):
        end.receive()


def lend_arrays(end: WorkerEnd) -> None:
    """Send arrays, and wait while the parent holds them."""
    end.begin()
    with suppress(PeerGone):
        end.send([np.full(MB, number, np.uint8) for number in range(4)])
        end.receive()


def write_arrays(end: WorkerEnd) -> None:
    """Send large arrays without pause. The parent bounds them by what it has received."""
    end.begin()
    with suppress(PeerGone):
        number = 0
        while True:
            end.send([np.full(4 * MB, number % 251, np.uint8)])
            number += 1
            end.receive()


def echo(end: WorkerEnd) -> None:
    """Send back what comes, one small item at a time."""
    end.begin()
    with suppress(PeerGone):
        while True:
            end.send(end.receive())


@contextmanager
def worker(function: Callable[..., None], *arguments: Any, method: str = "fork") -> Generator[tuple[ParentEnd, Any]]:
    """Run a function in a worker process, with the worker's end of a channel."""
    context: Any = multiprocessing.get_context(method)
    parent = ParentEnd()
    process = context.Process(target=function, args=(parent.worker_end, *arguments))
    process.start()
    parent.started(process)
    try:
        yield parent, process
    finally:
        parent.close()
        process.join(30)
        assert process.exitcode is not None
        process.close()
