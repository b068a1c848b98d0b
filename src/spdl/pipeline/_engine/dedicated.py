"""A thread of its own for a source whose iterator must stay in one thread."""

from __future__ import annotations

from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine
    from .source import Source

__all__ = ["DedicatedThread"]


class DedicatedThread:
    """Pulls one source from beginning to end: ``iter()``, each ``next()`` and ``close()``.

    For iterators that are bound to a thread: database cursors of sqlite3, thread-local modes, some native readers.
    Handing each item to a worker costs more than pulling it there, so it is not the default.
    """

    def __init__(self, engine: Engine, source: Source) -> None:
        self._engine = engine
        self._source = source
        self._gate = Lock()
        self._gate.acquire()
        self.thread = Thread(
            target=self._run, name=f"spdl_source_thread_{engine.pipeline_id}_{source.index}", daemon=True
        )

    def wake(self) -> None:
        """Have the thread look again. Needs no lock."""
        try:
            self._gate.release()
        except RuntimeError:  # It is open already: the thread is about to look.
            return

    def _run(self) -> None:
        try:
            self._pull_all()
        except BaseException as error:  # noqa: BLE001 - the consumer must be told instead of waiting for ever.
            self._engine.crash(error)
            self._engine.lock.release()

    def _pull_all(self) -> None:
        from .worker import pull  # noqa: PLC0415 - the worker's loop knows the engine, which knows this.

        engine, source = self._engine, self._source
        engine.lock.acquire()
        while not (engine.stopping or engine.done or source.ended):
            source.wants_room = True
            if source.has_place():
                source.wants_room = False
                pull(engine, source)
                engine.concluded()
                if engine.rubbish:
                    engine.drop_rubbish()
            else:
                engine.lock.release()
                self._gate.acquire()
                engine.lock.acquire()
        engine.lock.release()
        if not source.exhausted:
            self._close()

    def _close(self) -> None:
        engine, source = self._engine, self._source
        try:
            source.close()
        except BaseException as error:  # noqa: BLE001 - as for next().
            with engine.lock:
                source.exhausted = True
                engine.fail(source, None, error)
        source.exhausted = True
