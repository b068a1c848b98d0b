"""A thread of its own for a source whose iterator must stay in one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._metrics.page_columns import IDLE
from spdl.pipeline._world import Lock, Thread, get_ident, perf_counter

from .forked_child import end_forked_child

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
        self._engine.letting_go.thread_ends()

    def _pull_all(self) -> None:
        # Returns with the lock held.
        engine, source = self._engine, self._source
        engine.lock.acquire()
        engine.letting_go.thread_begins()
        row = engine.page.enter(get_ident())
        while not (engine.is_over() or source.ended):
            source.want_room()
            if source.has_place():
                source.stop_wanting_room()
                hand: list[Any] = []
                root = source.pull(hand)
                if root is not None:
                    source.put(root, hand.pop())
                engine.concluded()
                if engine.drops:
                    engine.drop_deferred()
            else:
                row[IDLE] = perf_counter()
                engine.lock.release()
                self._gate.acquire()
                engine.lock.acquire()
        if engine.forked:
            end_forked_child(engine)
        engine.page.leave(get_ident())
        if not source.exhausted:
            source.close()
            engine.concluded()
