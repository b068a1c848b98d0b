"""Another interpreter of this process, with its own GIL, which runs a program in a thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import wait
from threading import Thread
from typing import Any

# The program that a new interpreter begins with, with the variables that it is given.
_PRELUDE = "import sys\nsys.path[:] = search_path\n"


def interpreter_maker(name: str) -> Callable[[], Any]:
    """Return the function that makes an interpreter.

    Args:
        name: Who wants one, for the message.

    Raises:
        RuntimeError: If this Python has none.
    """
    try:
        from concurrent import interpreters  # type: ignore[attr-defined] # noqa: PLC0415 - Python 3.14 has it.
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeError(f"{name} requires Python 3.14 or later. Current version: {version}") from None
    make: Callable[[], Any] = interpreters.create
    return make


class RunningInterpreter:
    """An interpreter. It cannot be killed: if code there never returns, it stays, and the process does not end.

    Args:
        make: Makes one with the methods of `concurrent.interpreters.Interpreter`.
        program: The program that it runs.
        variables: The variables in the program's main module: bytes, strings, numbers, and tuples of these.
        handles: Called when it has ended, in order: what it has copies of can be closed then.

    Attributes:
        sign: A descriptor that becomes readable when it has ended.
        why: The reason for its end, in words, if it raised something.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        program: str,
        variables: dict[str, Any],
        handles: Sequence[Callable[[], None]],
    ) -> None:
        with ExitStack() as undo:
            interpreter = make()
            undo.callback(interpreter.close)
            interpreter.prepare_main(search_path=tuple(sys.path), **variables)
            self.why = ""
            self.sign, running = os.pipe()
            undo.callback(os.close, self.sign)
            undo.callback(os.close, running)
            self._program = _PRELUDE + program
            self._handles: list[Callable[[], None]] = [*handles, lambda: os.close(running)]
            self._thread = Thread(target=self._run, args=(interpreter,), name="spdl_subinterpreter", daemon=True)
            self._thread.start()
            # From here on the thread and `close` see to them.
            undo.pop_all()

    def _run(self, interpreter: Any) -> None:
        try:
            # The program reports errors of user code itself. After other errors, its next message is missing.
            try:
                # The private module of 3.13 returns what the program has raised.
                failed = interpreter.exec(self._program)
                self.why = "" if failed is None else str(getattr(failed, "formatted", failed))
            except Exception as error:  # noqa: BLE001 - as above.
                self.why = str(error)
            with suppress(Exception):
                interpreter.close()
        finally:
            for close in self._handles:
                close()

    def await_end(self, seconds: float | None) -> bool:
        """Wait so long for its end, or as long as it takes. Return whether it has ended."""
        return bool(wait([self.sign], seconds))

    def close(self) -> None:
        """Let go of it, once it has ended or no thread waits for that any more."""
        if self.await_end(0):
            self._thread.join()
        os.close(self.sign)
