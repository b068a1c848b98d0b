"""Makes the steps of flow diagrams."""

from __future__ import annotations

from flow_diagrams import Step

__all__ = ["command", "copy", "data", "gpu", "inside", "loop", "outside", "process", "thread", "told", "yours"]


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


def command(name: str, detail: str = "") -> Step:
    """Return a command that somebody types."""
    return Step("command", name, detail)


def inside(name: str, detail: str = "") -> Step:
    """Return a part of the package."""
    return Step("inside", name, detail)


def outside(name: str, detail: str = "") -> Step:
    """Return what the package uses and does not contain."""
    return Step("outside", name, detail)


def told(name: str, detail: str = "") -> Step:
    """Return what the package says, or a page."""
    return Step("told", name, detail)


def yours(name: str, detail: str = "") -> Step:
    """Return what the reader does."""
    return Step("yours", name, detail)
