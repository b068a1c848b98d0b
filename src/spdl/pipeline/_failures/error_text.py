"""Exceptions in words: in messages, in notes and in the log."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from typing import TYPE_CHECKING

from spdl.pipeline._declare.defaults import is_compact_log_enabled

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "MESSAGE_CHARACTERS",
    "TRACEBACK_CHARACTERS",
    "annotate",
    "log_error",
    "message_of",
    "note_once",
    "on_one_line",
    "shorten",
    "show_logging_error",
    "traceback_of",
    "type_and_message",
]

_LOG = logging.getLogger("spdl.pipeline")

# A message may hold the item, and that may be as long as a file.
MESSAGE_CHARACTERS = 2_000
TRACEBACK_CHARACTERS = 20_000
# One object that is raised for each item, as a failed future does, gets the frames of all of them.
_FRAMES = 100


def message_of(error: BaseException) -> str:
    """The exception's message, shortened."""
    try:
        return shorten(str(error), MESSAGE_CHARACTERS)
    except BaseException as broken:  # noqa: BLE001 - what describes the failure must not replace it.
        return f"(its message cannot be read: {type(broken).__name__})"


def type_and_message(error: BaseException) -> str:
    """The exception's last line, or lines, in a traceback."""
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except BaseException:  # noqa: BLE001 - as above; any attribute of an exception may be a property of the user's.
        return f"{type(error).__name__}: {message_of(error)}"


def traceback_of(error: BaseException) -> str:
    """The formatted traceback."""
    return _formatted(error) or f"{type_and_message(error)}\n(its traceback cannot be shown)"


def _formatted(error: BaseException) -> str | None:
    try:
        return "".join(traceback.format_exception(type(error), error, _last_frames(error)[0]))
    except BaseException:  # noqa: BLE001 - as above.
        return None


def _last_frames(error: BaseException) -> tuple[TracebackType | None, bool]:
    """Return the end of the exception's traceback, and whether there is more of it."""
    end = first = error.__traceback__
    for _ in range(_FRAMES):
        if end is None:
            return first, False
        end = end.tb_next
    last = first
    while end is not None and last is not None:
        end, last = end.tb_next, last.tb_next
    return last, last is not first


def shorten(text: str, characters: int) -> str:
    """Leave the middle of a text out that is longer than so many characters."""
    half = characters // 2
    left_out = len(text) - 2 * half
    return text if left_out <= 0 else f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def annotate(error: BaseException, stage: str, origin: str | None) -> None:
    """Write the stage, and the source item if there is one, into the exception's notes, once."""
    note_once(error, f"Pipeline stage: {stage}" if origin is None else f"Pipeline stage: {stage}, {origin}")


def note_once(error: BaseException, note: str) -> None:
    """Add a note to an exception, which may be one object that is raised over and over."""
    # A class of the user's may have its own idea of notes.
    with contextlib.suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            BaseException.add_note(error, note)


def log_error(error: BaseException, message: str, *values: object) -> None:
    """Log what was raised, after a message: with its traceback or, if the log is to be compact, in one line."""
    if is_compact_log_enabled():
        _LOG.error(f"{message}: %s", *values, on_one_line(error))
        return
    what = shorten(type_and_message(error), MESSAGE_CHARACTERS)
    text = _formatted(error)
    if text is not None and len(text) <= TRACEBACK_CHARACTERS and not _last_frames(error)[1]:
        _LOG.error(f"{message}: %s", *values, what, exc_info=error)
    else:
        # A handler would write in full what `exc_info` holds, or fail to.
        _LOG.error(f"{message}: %s\n%s", *values, what, shorten(text or traceback_of(error), TRACEBACK_CHARACTERS))


def on_one_line(error: BaseException) -> str:
    """The exception's type and message, and where it was raised."""
    what = " ".join(shorten(type_and_message(error), MESSAGE_CHARACTERS).split())
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return what + "".join(f" ({frame.filename}:{frame.lineno}:{frame.name})" for frame in frames)


def show_logging_error() -> None:
    """Print what a log handler raised, as `logging` itself does for the handlers that follow its rules."""
    if logging.raiseExceptions and sys.stderr is not None:
        traceback.print_exc(file=sys.stderr)
