"""Opens the page through which other processes watch an engine."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from spdl.pipeline._metrics.head import pack_head
from spdl.pipeline._metrics.page import Page, no_page
from spdl.pipeline._metrics.page_columns import COLUMNS
from spdl.pipeline._metrics.page_file import make_page_file
from spdl.pipeline._metrics.record_request import RequestWatch, request_path
from spdl.pipeline._metrics.stacks_file import enable_stacks
from spdl.pipeline._metrics.sweep import sweep

if TYPE_CHECKING:
    from spdl.pipeline._metrics.head import PageHead

    from .engine import Engine

__all__ = ["open_page", "prepare_page"]

# How many threads have a row, at least: some may be added, and executors have threads of their own.
_ROWS = 64
_ROWS_PER_THREAD = 4


def prepare_page() -> None:
    """Do what is done before the first page of a process is made. Called without the lock."""
    _sweep_once(os.getpid())
    if os.environ.get("SPDL_STACKS") == "1":
        enable_stacks()


@lru_cache(1)
def _sweep_once(pid: int) -> None:  # noqa: ARG001 - once in each process, the forked ones included.
    sweep()


def open_page(engine: Engine, head: PageHead) -> Page:
    """Return the page of an engine that begins; one that nobody sees, if there is no place for it."""
    rows = max(_ROWS, _ROWS_PER_THREAD * engine.workers.num_threads)
    file = make_page_file(f"{head.pid}-{engine.pipeline_id}", pack_head(head), rows=rows)
    columns = COLUMNS + len(head.sources) + len(head.stages)
    if file is None:
        return no_page(columns)
    asked_at = request_path(head.pid, head.started_ticks, head.pid_namespace)
    return Page(columns, file, RequestWatch(asked_at))
