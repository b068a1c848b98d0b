"""Stacks of the threads of another process: by py-spy, or written by the process itself at a signal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from spdl.pipeline._report.page_file import (
    STACKS,
    caught_signals,
    is_private,
    page_folder,
    pid_namespace,
    started_ticks,
)

# Files with the pipeline's own frames, and with the first frames of each thread of Python.
_ENGINE = "/spdl/pipeline/_"
_BEGINS = "threading.py"


class NoStacksError(Exception):
    """Raised if stacks cannot be had in some way. The message says why, and how they could be."""


class Frame(NamedTuple):
    """A call that goes on. Its line is 0 if it is not known."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The calls of a thread, the innermost first. Numbers are 0, and the name is empty, if they are not known.

    `identity` is what ``threading.get_ident()`` returns in it.
    """

    thread: int
    identity: int
    name: str
    frames: tuple[Frame, ...]


def without_engine(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the calls without the outermost ones, which the engine makes to run an op."""
    end = len(frames)
    while end and (_ENGINE in frames[end - 1].file or frames[end - 1].file.endswith(_BEGINS)):
        end -= 1
    return frames[:end]


_PY_SPY_SECONDS = 30


def by_py_spy(pid: int) -> list[ThreadStack]:
    """Return the stacks of a process, which is paused for some milliseconds, or raise a NoStacksError."""
    beside = Path(sys.executable).with_name("py-spy")
    command = str(beside) if beside.exists() else shutil.which("py-spy")
    if command is None:
        raise NoStacksError("py-spy is not installed (`pip install py-spy`)")
    try:
        done = subprocess.run(  # noqa: S603 - the user's own py-spy.
            [command, "dump", "--json", "--pid", str(pid)],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PY_SPY_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoStacksError(f"py-spy cannot be run: {error}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise NoStacksError(f"py-spy cannot read them: {lines[0].removeprefix('Error: ')}")
    try:
        return [_stack(thread) for thread in json.loads(done.stdout)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NoStacksError(f"this version of py-spy answers in another way: {error!r}") from error


def _stack(thread: dict[str, Any]) -> ThreadStack:
    frames = tuple(Frame(frame["name"], frame["filename"], int(frame["line"] or 0)) for frame in thread["frames"])
    return ThreadStack(
        int(thread["os_thread_id"] or 0), int(thread["thread_id"] or 0), thread["thread_name"] or "", frames
    )


# A process answers within this time or not at all. The answer is complete if the file has not grown for this long.
_SECONDS, _SETTLED, _LOOK = 3.0, 0.1, 0.01
_MOST_HEAD = 4096
_MOST = 4 << 20

_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


def by_signal(pid: int, folder: Path | None = None) -> list[ThreadStack]:
    """Return the stacks of a process that has called `enable_stacks`. It works while the process hangs.

    Raises a NoStacksError if it has not called it, or does not answer.
    """
    folder = page_folder() if folder is None else folder
    try:
        if not is_private(folder):
            raise FileNotFoundError
        descriptor = os.open(folder / f"{pid}{STACKS}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise NoStacksError(
            "the process has not called `spdl.observe.enable_stacks()` or been started with SPDL_STACKS=1"
        ) from None
    try:
        with _alone(descriptor):
            return _parse(_ask(descriptor, pid))
    except OSError as error:
        raise NoStacksError(f"the process cannot be asked for its stacks: {error.strerror}") from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _alone(descriptor: int) -> Iterator[None]:
    """Keep others who ask away."""
    deadline = monotonic() + _SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if monotonic() > deadline:
                raise NoStacksError("another program asks the process for its stacks all the time") from None
            sleep(_LOOK)
    yield


def _ask(descriptor: int, pid: int) -> bytes:
    head, found, _ = os.pread(descriptor, _MOST_HEAD, 0).partition(b"\n")
    try:
        about = json.loads(head) if found else {}
        number, started, namespace = (int(about[name]) for name in ("signal", "started_ticks", "pid_namespace"))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise NoStacksError("the file in which the process writes its stacks is damaged") from None
    # A process without a handler for the signal would be ended by it.
    ours = namespace == pid_namespace() and started == started_ticks(pid) and number > 0
    if not ours or not caught_signals(pid) >> (number - 1) & 1:
        raise NoStacksError("the process that prepared it is another one")
    begin = len(head) + 1
    os.ftruncate(descriptor, begin)
    os.kill(pid, number)
    size, changed = begin, monotonic()
    deadline = changed + _SECONDS
    while size == begin or monotonic() - changed < _SETTLED:
        if monotonic() > deadline:
            if size == begin:
                raise NoStacksError(f"the process has not answered within {_SECONDS:g} s: is it stopped?")
            break
        sleep(_LOOK)
        now = os.fstat(descriptor).st_size
        if now != size:
            size, changed = now, monotonic()
    answer = os.pread(descriptor, min(size - begin, _MOST), begin)
    os.ftruncate(descriptor, begin)
    return answer


def _parse(answer: bytes) -> list[ThreadStack]:
    stacks: list[tuple[int, str, list[Frame]]] = []
    for line in answer.decode(errors="replace").splitlines():
        if match := _THREAD.fullmatch(line):
            stacks.append((int(match[1], 16), match[2] or "", []))
        elif stacks and (match := _FRAME.fullmatch(line)):
            stacks[-1][2].append(Frame(match[3], match[1], int(match[2]) if match[2].isdecimal() else 0))
    return [ThreadStack(0, identity, name, tuple(frames)) for identity, name, frames in stacks]


def read_stacks(pid: int) -> tuple[str, list[ThreadStack]]:
    """Return how the stacks of a process were read, and the stacks. A NoStacksError says what is missing."""
    reasons = []
    for name, read in (("py-spy", by_py_spy), ("signal", by_signal)):
        try:
            return name, read(pid)
        except NoStacksError as error:
            reasons.append(str(error))
    raise NoStacksError(", and ".join(reasons))
