"""PyTorch's DataLoader around a function that loads the clips of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clips import Task


class Files:
    """A dataset of tasks, each of which a worker process carries out."""

    def __init__(self, tasks: list[Task], load: Callable[[Task], Any]) -> None:
        self._tasks = tasks
        self._load = load

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Any:
        return torch.as_tensor(self._load(self._tasks[index]))


def in_data_loader(load: Callable[[Task], Any], tasks: Iterator[Task], workers: int) -> Iterator[int]:
    """Yield the number of clips of each task."""
    # Processes are forked before anything is decoded here, so no library's thread is missing in them.
    loader = torch.utils.data.DataLoader(
        Files(list(tasks), load), batch_size=None, num_workers=workers, multiprocessing_context="fork"
    )
    for clips in loader:
        yield len(clips)
