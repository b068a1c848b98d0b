"""Asks another process to record its pipelines, and takes the trace."""

from __future__ import annotations

import contextlib
import os
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Self

from spdl.observe._trace.messages import MessageStream, MessageStreamError
from spdl.pipeline._report.page_file import REQUEST, is_left, is_private, request_path

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PageHead


# How often it is looked whether the process is still there, and how long a trace may be on its way beyond the time that
# was asked for: it is made where the program computes.
_LOOK, _LATE = 0.1, 60.0
# The time in which a connection that was made says who it is.
_SAYS_WITHIN = 5.0
# While a request is being made.
_BEGUN = ".asking"


class RecordingError(Exception):
    """Raised if there will not be a trace. The message has the reason."""


class AskedAlreadyError(RecordingError):
    """Raised if the process is being recorded for another program now, or waits for it."""


class ProcessRequest:
    """Asks a process for a trace, as long as the block of a ``with`` statement runs.

    Entering it raises an AskedAlreadyError if another one asks it.
    """

    def __init__(self, head: PageHead, folder: Path) -> None:
        self._pid = head.pid
        self._path = request_path(head.pid, head.started_ticks, head.pid_namespace, folder)
        self._listener = socket.socket(socket.AF_UNIX)
        self._number = 0
        self._channel: MessageStream | None = None
        self._connection: socket.socket | None = None

    def __enter__(self) -> Self:
        try:
            self._listen()
        except BaseException:
            self._listener.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A process that still waits for it has to find the socket closed.
        self._listener.close()
        with contextlib.suppress(OSError):
            if self._is_put():
                self._path.unlink()
        if self._connection is not None:
            self._connection.close()

    def _listen(self) -> None:
        if not is_private(self._path.parent):
            raise RecordingError(f"{self._path.parent} must be your own folder, and closed to other users")
        # The process finds it when this one listens. Until then, others would take it for a request that was left.
        temporary = self._path.with_name(f"{self._path.name.removesuffix(REQUEST)}-{os.getpid()}{_BEGUN}")
        temporary.unlink(missing_ok=True)
        try:
            self._listener.bind(str(temporary))
        except OSError as error:
            raise RecordingError(f"a request cannot be put at {self._path}: {error}") from error
        try:
            temporary.chmod(0o600)
            self._listener.listen()
            self._number = temporary.lstat().st_ino
            try:
                self._path.hardlink_to(temporary)
            except FileExistsError:
                if not is_left(self._path):
                    raise AskedAlreadyError(f"process {self._pid} is being recorded already, or asked for it") from None
                self._path.unlink(missing_ok=True)
                self._path.hardlink_to(temporary)
        finally:
            temporary.unlink()

    def begin(self, asked: dict[str, object], *, within: float, is_gone: Callable[[], bool]) -> int:
        """Make the process record for some `seconds`, or `try` other limits. Return with how many pipelines it does it.

        Raises:
            TimeoutError: It has not answered in time.
            RecordingError: It has ended, or refuses.
        """
        deadline = monotonic() + within
        while self._channel is None:
            self._listener.settimeout(_LOOK)
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                if is_gone():
                    raise RecordingError(f"process {self._pid} has ended") from None
                if not self._is_put():
                    raise RecordingError(
                        f"process {self._pid} could not be asked: {self._path} was removed. If it cannot record, such"
                        " as after spdl was replaced by another version, its log says so; otherwise ask again"
                    ) from None
                if monotonic() >= deadline:
                    raise
                continue
            self._take(connection)
        try:
            self._channel.say(**asked)
            message = self._channel.hear(within)
        except (MessageStreamError, OSError) as error:
            raise self._ended(error) from error
        return _number(message, "pipelines", self._pid)

    def _is_put(self) -> bool:
        """Return whether the request is where the process looks. Another program may have removed it as left over."""
        try:
            return self._path.lstat().st_ino == self._number
        except OSError:
            return False

    def _take(self, connection: socket.socket) -> None:
        """Keep a connection if the process made it. Another program may only have checked whether this one listens."""
        channel = MessageStream(connection)
        with contextlib.suppress(MessageStreamError, OSError):
            if channel.is_of_this_user() and channel.hear(_SAYS_WITHIN).get("pid") == self._pid:
                self._connection, self._channel = connection, channel
                return
        connection.close()

    def stop(self) -> None:
        """End the recording now. A signal handler may call it."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.say(stop=True)

    def receive(self, file: IO[bytes], seconds: float) -> int:
        """Write the trace when it comes. Return how many slices the process keeps, if there were more; otherwise 0.

        Raises:
            RecordingError: The process has ended, or sends no trace.
            OSError: The file could not be written.
        """
        assert self._channel is not None
        try:
            message = self._channel.hear(seconds + _LATE)
        except (MessageStreamError, OSError) as error:
            raise self._ended(error) from error
        file.writelines(self._pieces(self._channel, _number(message, "size", self._pid)))
        return _number(message, "only_latest", self._pid)

    def _pieces(self, channel: MessageStream, size: int) -> Iterator[bytes]:
        content = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            for piece in channel.receive(size, _LATE):
                yield content.decompress(piece)
        except (MessageStreamError, OSError) as error:
            raise self._ended(error) from error
        except zlib.error as error:
            raise RecordingError(f"process {self._pid} sends a trace of another version of spdl: {error}") from error

    def _ended(self, error: Exception) -> RecordingError:
        if isinstance(error, TimeoutError):
            return RecordingError(f"process {self._pid} answers no more: nothing was written")
        return RecordingError(f"process {self._pid} has ended before it could send what it had recorded")


def _number(message: dict[str, Any], name: str, pid: int) -> int:
    if isinstance(number := message.get(name), int) and number >= 0:
        return number
    raise RecordingError(f"process {pid} says: {message.get('error', message)}")
