"""How much a recorder keeps unless it is told."""

__all__ = ["MAX_EVENTS"]

# Some 70 MB, with as many counts.
MAX_EVENTS = 200_000
