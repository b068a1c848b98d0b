"""Records a trace of the pipelines of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from spdl._check import check_path, positive
from spdl._files import naming
from spdl._trace_file import trace_content
from spdl.observe._trace.answer import end_answer
from spdl.observe._trace.folder import write_trace
from spdl.pipeline._declare import defaults
from spdl.pipeline._report.recorder import MAX_EVENTS, Recorder

# After one recording was ended for it, another thread may have begun the next one.
_TIMES = 3


@contextmanager
def record_trace(output: str | os.PathLike[str], *, max_events: int = MAX_EVENTS) -> Iterator[None]:
    """Record what the pipelines that are built in the body do when, into a file that https://ui.perfetto.dev shows.

    The trace has a row for each thread, with a slice for each call of an op, and rows for what overlaps: coroutines on
    the event loop, and calls in executors, which last from taking the item to having its result. A flow of arrows leads
    each source item from the source through the stages and its batch to the consumer, whose row shows its steps and
    its waits for data. Counters show how many items lie in the queues. Events that outlast the body have no end.

    Everything is kept in memory until the end, the latest events only. A traced pipeline does the same, but spends some
    microseconds more on each item and stage: a trace shows what happens when, and does not measure throughput.
    Pipelines that were built before are not traced, and none outside of the body pays for it. ``spdl record`` does this
    for a program without changing it, and ``spdl record PID`` for one that runs.

    Args:
        output: The path of the file, which holds JSON in the Trace Event Format. An existing one is replaced. One whose
            name ends with ``.gz`` is compressed, which takes a tenth of the room.
        max_events: How many slices are kept, and how many values of counters. Each takes some 200 bytes.

    Yields:
        None: Pipelines that are built in the body of the ``with`` statement are traced, and loaders' that begin an
        epoch there.

    Raises:
        OSError: If the file cannot be opened, or, at the end, if it could not be written to.
        RuntimeError: If this process is traced already.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from spdl.observe import record_trace
        >>> from spdl.pipeline import PipelineBuilder
        >>> with TemporaryDirectory() as folder:
        ...     with record_trace(Path(folder, "trace.json.gz")):
        ...         with PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build().auto_stop() as pipeline:
        ...             items = list(pipeline)
        ...     Path(folder, "trace.json.gz").stat().st_size > 500
        True
    """
    check_path("output", output)
    recorder = Recorder(positive("max_events", max_events))
    _claim(recorder)
    process = os.getpid()
    try:
        file = open(output, "wb")  # noqa: PTH123, SIM115 - it may be any kind of path; closed below.
    except BaseException:
        defaults.release_recorder()
        raise
    with file:
        try:
            yield
        finally:
            defaults.release_recorder()
            recorder.close()
            # A child that was forked in the body has a copy of the parent's threads only.
            if os.getpid() == process:
                with naming(output):
                    with trace_content(output, file) as content:
                        write_trace(recorder, content)
                    file.close()  # What it still has is written now.


def _claim(recorder: Recorder) -> None:
    for _ in range(_TIMES):
        # `spdl record PID` must not be what makes a program fail.
        end_answer()
        if defaults.claim_recorder(recorder):
            return
    raise RuntimeError("The pipelines of this process are being traced already: one trace at a time.")
