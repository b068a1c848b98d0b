"""Stacks that py-spy reads from the memory of a process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .thread_stack import Frame, NoStacksError, ThreadStack

__all__ = ["by_py_spy"]

_SECONDS = 30


def by_py_spy(pid: int) -> list[ThreadStack]:
    """Return the stacks of a process. It is paused for some milliseconds.

    Raises:
        NoStacksError: If py-spy is not there, or cannot do it.
    """
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
            timeout=_SECONDS,
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
