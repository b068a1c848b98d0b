"""What it takes a worker process to pickle its batches and to send them."""

from __future__ import annotations

from collections import deque
from time import thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SendTimes"]


class SendTimes:
    """The CPU time of the thread that pickles what a queue is given, and sends it.

    Attributes:
        sent: How many objects were sent.
        send_cpu: The CPU time that it took.
        sent_bytes: The bytes that went through the pipe. Tensors go through shared memory, so few of these are theirs.
    """

    def __init__(self) -> None:
        self.sent = self.sent_bytes = 0
        self.send_cpu = 0.0
        self._taken_at = 0.0

    def watch(self, queue: Any) -> bool:
        """Measure a queue of `multiprocessing` that nothing has been put into yet.

        Returns:
            Whether that is possible.
        """
        known = vars(queue)
        if getattr(queue, "_thread", None) is not None or not {"_buffer", "_send_bytes"} <= known.keys():
            return False
        # The queue's thread takes an object from this buffer, pickles it, waits for its turn and calls this function.
        known["_buffer"] = _Buffer(self)
        known["_send_bytes"] = self._timed(known["_send_bytes"])
        return True

    def note_taken(self) -> None:
        """Called when the thread takes an object."""
        self._taken_at = thread_time()

    def _timed(self, send: Callable[[Any], None]) -> Callable[[Any], None]:
        def send_and_note(pickled: Any) -> None:
            send(pickled)
            self.sent += 1
            self.sent_bytes += len(pickled)
            self.send_cpu += thread_time() - self._taken_at

        return send_and_note


class _Buffer(deque[Any]):
    """A queue's buffer, which says when an object is taken."""

    def __init__(self, times: SendTimes) -> None:
        super().__init__()
        self._times = times

    def popleft(self) -> Any:
        taken = super().popleft()
        self._times.note_taken()
        return taken
