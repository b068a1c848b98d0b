"""Finds the pipelines that run on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._report.page_file import SUFFIX, is_private, page_folder

from .observed_pipeline import ObservedPipeline
from .page_head import PageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["find_pipelines"]


def find_pipelines(pid: int | None = None, *, folder: Path | None = None) -> list[ObservedPipeline]:
    """Return the pipelines of this user's processes on this machine that run, and those whose process was killed.

    A pipeline has no page with ``SPDL_OBSERVE=0`` in its environment, and not where memory is short. What is no page,
    or one of another version of the package, is left out: it never raises.

    Args:
        pid: Only those of the process with this number. The default is all processes.
        folder: Where the pages are, if not in the user's folder.

    Returns:
        The pipelines, by process and number. Each keeps a file open as long as it is referred to.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> with PipelineBuilder().add_source(iter(int, 1)).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     print(len(find_pipelines(os.getpid())))
        1
    """
    folder = page_folder() if folder is None else folder
    if not is_private(folder):
        return []
    found = []
    for path in folder.glob(f"{'*' if pid is None else pid}-*{SUFFIX}"):
        try:
            found.append(ObservedPipeline(path))
        except (OSError, PageError):
            # It has ended this moment, or is none of ours.
            continue
    return sorted(found, key=lambda pipeline: (pipeline.head.pid, pipeline.head.pipeline))
