"""Makes the steps of flow diagrams."""

from __future__ import annotations

from flow_diagrams import Step

__all__ = ["copy", "data", "gpu", "loop", "process", "thread"]


def data(name: str, detail: str = "") -> Step:
    """Return an input."""
    return Step("data", name, detail)


def thread(name: str, detail: str = "") -> Step:
    """Return a step in a thread of the main process."""
    return Step("thread", name, detail)


def loop(name: str = "loop", detail: str = "takes the batch") -> Step:
    """Return a step of the main thread."""
    return Step("main", name, detail)


def process(name: str, detail: str = "") -> Step:
    """Return a step in a worker process."""
    return Step("process", name, detail)


def copy(name: str, detail: str = "") -> Step:
    """Return a copy from a worker process to the main process."""
    return Step("copy", name, detail)


def gpu(name: str, detail: str = "") -> Step:
    """Return a step on the GPU."""
    return Step("gpu", name, detail)
