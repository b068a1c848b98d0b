"""Calls what Ctrl-C must not interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Python's own would take a call for ended that goes on after an interrupt.
from spdl.pipeline._world import Thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Uninterrupted"]


class Uninterrupted:
    """Calls functions in threads of their own, which end at once: only the main thread is interrupted.

    If that happens while it waits for a call, the call goes on.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, and wait for it.

        Raises:
            BaseException: What it has raised.
        """
        raised: list[BaseException] = []

        def run() -> None:
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - raised below.
                raised.append(error)

        self.wait()
        self._thread = thread = Thread(target=run, name="spdl_ray_call", daemon=True)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]

    def wait(self) -> None:
        """Wait until no call goes on."""
        thread = self._thread
        if thread is not None and thread.ident is not None:
            thread.join()
