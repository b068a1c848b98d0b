"""Writes the report of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_path, check_str, refuse
from spdl._files import replaced
from spdl.observe._export.observed import Observed

from .history import History, Sample
from .page import page

if TYPE_CHECKING:
    import os

    from spdl.pipeline._report.statistics import PipelineStatistics

__all__ = ["write_report"]


def write_report(observed: Observed | History, path: str | os.PathLike[str], *, title: str = "SPDL pipeline") -> None:
    """Write what a pipeline did as a page of HTML that needs no network, no server and nothing else.

    The page has the sentence on what limits the pipeline, and a table of its stages with all counts, how busy each was
    and how full its queue. Made of a `History`, it also has charts over time: items per second, what the slots of each
    stage did or waited for, and the items in front of it. These are drawn by matplotlib (``pip install
    'spdl-turbo[demo]'``), and the page says so where it is missing.

    Args:
        observed: A history, or a pipeline or a loader, of which the totals are shown.
        path: Where the page goes. An existing file is replaced when the page is whole.
        title: The heading of the page.

    Raises:
        OSError: If the file cannot be written.
        TypeError: If an argument is not as described.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from spdl.observe import History, write_report
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)
        >>> with History(pipeline) as history, pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> with TemporaryDirectory() as folder:
        ...     write_report(history, Path(folder, "report.html"))
        ...     Path(folder, "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        True
    """
    check_path("path", path)
    title = check_str("title", title)
    if isinstance(observed, History):
        samples = observed.samples()
    elif isinstance(observed, Observed):
        statistics: PipelineStatistics = observed.statistics()
        samples = [Sample(statistics.elapsed, statistics)]
    else:
        refuse(TypeError, "observed", "a History, a pipeline or a loader", observed)
    # A name of the user's may hold half a character, which cannot be written as UTF-8.
    text = page(title, samples).encode("utf-8", "replace")
    with replaced(path) as file:
        file.write(text)
