"""Says that threads may be the cause, where an error looks like it."""

from __future__ import annotations

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["note_sharing"]

# What Python, SQLite and tokenizers written in Rust say if two threads use one object at a time.
_SIGNS = (
    "already borrowed",
    "changed size during iteration",
    "mutated during iteration",
    "generator already executing",
    "used in that same thread",
)


def note_sharing(error: BaseException) -> None:
    """Add a note to an error that a worker thread has met, if sharing the dataset is a likely cause."""
    text = str(error).lower()
    if any(sign in text for sign in _SIGNS):
        error.add_note(
            "Worker threads share the dataset, which is a likely cause: workers='process' gives each worker its own."
        )
