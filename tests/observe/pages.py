"""Pages without a pipeline: as killed processes, other containers and damage leave them, and the folder they are in."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from spdl.pipeline._report.page_file import PageFile, make_page_file, page_folder, pid_namespace
from spdl.pipeline._report.sample import PIPELINE_VALUES, SOURCE_VALUES, STAGE_VALUES

if TYPE_CHECKING:
    from spdl.observe import PageHead

__all__ = [
    "ABOUT",
    "NOBODY",
    "SOURCE_VALUES",
    "STAGE_VALUES",
    "VALUES",
    "begin_page",
    "folder_of_all_pages",
    "leave_page",
    "request_file",
]

# No process has a greater number, so none has this one. In the folder of all pages, each test has another one.
NOBODY = 4_194_305
# The head of a page of one source and one stage, and how many counters such a page has.
ABOUT = {
    "pid": 1,
    "started_ticks": 0,
    "pid_namespace": 0,
    "pipeline": 0,
    "command": ["train.py"],
    "ranks": {},
    "cores": 2.0,
    "gil": True,
    "sources": ["src"],
    "stages": [
        {
            "name": "op",
            "kind": "FunctionNode",
            "op": "module.op",
            "served_by": "threads",
            "ordered": False,
            "adjustable": True,
            "declared": True,
            "feeders": [0],
            "processes": 0,
            "copies": 0,
        }
    ],
    "loader": None,
}
_OF_PIPELINE, _OF_SOURCE, _OF_STAGE = map(len, (PIPELINE_VALUES, SOURCE_VALUES, STAGE_VALUES))
VALUES = _OF_PIPELINE + _OF_SOURCE + _OF_STAGE


def folder_of_all_pages() -> Path:
    """Return the user's folder, where pipelines have their pages."""
    return page_folder()


def begin_page(folder: Path, name: str = "1-0", *, rows: int = 2, **about: Any) -> PageFile | None:
    """Make a page of one source and one stage that holds no counters yet. None if the folder is no place for it."""
    return make_page_file(name, ABOUT | about, rows=rows, folder=folder)


def leave_page(folder: Path, pid: int, *, written: float, of_other_container: bool = False) -> PageFile:
    """Make the page of a process that has written its counters at some time, and is not there any more.

    It is made elsewhere: pipelines of other tests would remove it from the folder of all pages before it is complete.
    """
    head = ABOUT | {
        "pid": pid,
        "started_ticks": 1,
        "pid_namespace": pid_namespace() + of_other_container,
        "stages": [],
    }
    folder.mkdir(0o700, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as elsewhere:
        file = make_page_file(f"{pid}-0", head, rows=2, folder=Path(elsewhere))
        assert file is not None
        file.write([written] * (_OF_PIPELINE + _OF_SOURCE))
        Path(elsewhere, f"{pid}-0.page").rename(folder / f"{pid}-0.page")
    return file


def request_file(head: PageHead) -> Path:
    """Return where a process is asked for a trace."""
    return page_folder() / f"{head.pid}-{head.started_ticks}-{head.pid_namespace}.record"
