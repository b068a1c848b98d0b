"""The end of a forked child that comes back from the code of the user's that has forked it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["end_forked_child"]

_MESSAGE = (
    "spdl.pipeline: an op or a source has forked this process ({pid}), and has returned or raised in the child, too. "
    "The pipeline's threads and the executors' are in the parent only, so the child ends here, with status 1. Have it "
    "call os._exit() or sys.exit() there, or use multiprocessing or subprocess instead of os.fork().\n"
)


def end_forked_child(engine: Engine, error: BaseException | None = None) -> NoReturn:
    """End this process, since nothing goes on in it: it was forked in a thread of the engine's, which has come back.

    A `SystemExit` ends it as it would end a program; its status is the child's. Nothing is flushed and no finalizer
    runs: what they are about is the parent's.

    Args:
        engine: The engine.
        error: What the code of the user's raised in the child, if that is no failure of the engine's yet.
    """
    errors = [error, *(failure for _, failure in engine.failures.stages)]
    ends = next((found for error in errors if (found := _exit_in(error)) is not None), None)
    if ends is None:
        message = _MESSAGE.format(pid=os.getpid())
        status = 1
    else:
        code = ends.code
        message = "" if code is None or isinstance(code, int) else f"{code}\n"
        status = code & 0xFF if isinstance(code, int) else int(bool(message))
    if message:
        # Buffers and their locks are copies of the parent's, as they were at the fork.
        os.write(2, message.encode(errors="backslashreplace"))
    os._exit(status)


def _exit_in(error: BaseException | None) -> SystemExit | None:
    # What is closed on the way out may raise as well: asyncio has no running loop in a forked child.
    seen: list[BaseException] = []
    while error is not None and all(error is not it for it in seen):
        if isinstance(error, SystemExit):
            return error
        seen.append(error)
        error = error.__context__
    return None
