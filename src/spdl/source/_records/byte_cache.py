"""What was decoded, of which neighbours may be asked for next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from spdl._forks import renew_in_children

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["ByteCache"]


class ByteCache:
    """Values by their keys, as many as fit into some bytes, and at least the last one. Each is made once at a time.

    Args:
        most: How many bytes.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        # In a forked process nobody makes what threads of the parent were about to.
        self._lock = threading.Lock()
        # The one that was asked for last is at the end. The bytes are known when it is made.
        self._kept: OrderedDict[Hashable, Future[tuple[Any, int]]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], tuple[Any, int]]) -> Any:
        """Return a value, which is made with its size in bytes if it is not here.

        Raises:
            Exception: What `make` raises, to all that wait for it. It is made anew the next time.
        """
        with self._lock:
            future = self._kept.get(key)
            if found := future is not None:
                self._kept.move_to_end(key)
            else:
                future = self._kept[key] = Future()
        if not found:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                future.set_exception(error)
                raise
            self._trim()
        return future.result()[0]

    def _trim(self) -> None:
        dropped = []
        with self._lock:
            done = [(key, future.result()[1]) for key, future in self._kept.items() if future.done()]
            size = sum(each for _, each in done)
            for key, each in done[:-1]:
                if size <= self.most:
                    break
                size -= each
                dropped.append(self._kept.pop(key))
        # Large buffers are freed without the lock.
        dropped.clear()

    def __getstate__(self) -> int:
        return self.most

    def __setstate__(self, most: int) -> None:
        self.__init__(most)  # type: ignore[misc]
