"""A file of metrics, for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from spdl._check import check_path, check_seconds
from spdl._replaced import replaced

from .observed import check_observed, read
from .prometheus_text import format_metrics
from .ticker import Ticker

if TYPE_CHECKING:
    from types import TracebackType

    from .observed import Observables

__all__ = ["PrometheusFile"]

# As `open` would make it, but for what the process masks: the node exporter is another user.
_READABLE_BY_ALL = 0o644


class PrometheusFile:
    """A file that has what `prometheus_text` returns, written anew at intervals by a daemon thread.

    It is meant for the textfile collector of Prometheus' node exporter. Each time a new file takes the place of the old
    one, so a reader never sees a part of it. It is written from the construction until `close` or the end of a ``with``
    block, which writes it once more. The pipelines are kept alive until then. The file stays.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such. The mapping is
            read at each writing: pipelines may be added and taken out.
        path: Where the file goes. The node exporter reads names that end in ``.prom``.
        interval: Seconds from one writing to the next.

    Raises:
        OSError: If the file cannot be written, at the construction and at the end. In between it is logged.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from spdl.observe import PrometheusFile
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build(num_threads=1)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "spdl.prom")
        ...     with PrometheusFile(pipeline, path), pipeline.auto_stop():
        ...         items = list(pipeline)
        ...     'spdl_stage_items_total{pipeline="pipeline",stage="sink",stage_index="1"} 3' in path.read_text()
        True
    """

    def __init__(self, pipelines: Observables, path: str | os.PathLike[str], *, interval: float = 15.0) -> None:
        self._observed = check_observed(pipelines)
        check_path("path", path)
        self._path = Path(os.fsdecode(path))
        seconds = check_seconds("interval", interval, above_zero=True)
        self.write()
        self._ticker = Ticker(self.write, seconds, "spdl_prometheus_file")

    def write(self) -> None:
        """Write the file now.

        Raises:
            OSError: If it cannot be written. An old one is left as it was.
        """
        text = format_metrics(read(self._observed))
        with replaced(self._path) as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), _READABLE_BY_ALL)

    def close(self) -> None:
        """Write the file once more, and end. Further calls do nothing.

        Raises:
            OSError: If it cannot be written.
        """
        if self._ticker.close():
            self.write()

    def __enter__(self) -> Self:
        """Return the object itself, which writes already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close it."""
        self.close()
