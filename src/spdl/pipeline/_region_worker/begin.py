"""What workers begin with: in a process, in an interpreter, in threads."""

from __future__ import annotations

import pickle
import signal
from typing import TYPE_CHECKING

from spdl.pipeline._nodes.executors.process_work import pack_error
from spdl.pipeline._regions.messages import Job, RaisedHere
from spdl.pipeline._transport.channel import WorkerEnd

from .lines import Lines
from .place import Place
from .work import work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._transport.thread_channel import ThreadEnd

__all__ = ["begin_interpreter", "begin_process", "begin_threads"]

# Seconds that ops have in a process to end in order when nobody wants their results any more.
_GRACE = 1.0


def begin_process(end: WorkerEnd, payload: Job | bytes) -> None:
    """Begin in a process of its own.

    Args:
        end: The connection.
        payload: The work; pickled unless this process was forked.
    """
    end.begin()
    # A terminal sends Ctrl-C to all processes; the pipeline's process then ends this one in order. Programs that are
    # started here would inherit SIG_IGN, but not a handler that does nothing.
    signal.signal(signal.SIGINT, lambda *_: None)
    _work_alone(end, payload, _GRACE)


def begin_interpreter(payload: bytes, out: Sequence[int], into: Sequence[int]) -> None:
    """Begin in an interpreter of its own, which has no threads left when it ends.

    Args:
        payload: The pickled work.
        out: The numbers of the lane that leads to the pipeline.
        into: Those of the other one.
    """
    end = WorkerEnd.begin_in_interpreter(out, into)
    try:
        _work_alone(end, payload, None)
    finally:
        end.close()


def _work_alone(end: WorkerEnd, payload: Job | bytes, grace: float | None) -> None:
    place = Place(alone=True, grace=grace, lines=Lines().take_all(), wrap=pack_error, began=lambda _: None)
    # The bytes come from our parent.
    work(end, lambda: pickle.loads(payload) if isinstance(payload, bytes) else payload, place)  # noqa: S301


def begin_threads(end: ThreadEnd, job: Job, engines: list[Engine]) -> None:
    """Begin in a thread of the pipeline's process.

    Args:
        end: The connection.
        job: The work.
        engines: Filled with the engine.
    """
    # What it logs is logged as by any other pipeline here.
    place = Place(alone=False, grace=None, lines=Lines(), wrap=RaisedHere, began=engines.append)
    try:
        work(end, lambda: job, place)
    finally:
        end.close()
