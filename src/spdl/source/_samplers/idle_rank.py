"""What is said of a rank that gets nothing of what the ranks share."""

from __future__ import annotations

from spdl._locate import warn_caller

__all__ = ["warn_of_idle_rank"]


def warn_of_idle_rank(rank: int, world_size: int, count: int, called: str, remedy: str) -> None:
    """Warn of a rank that gets nothing.

    Args:
        rank: The rank.
        world_size: How many there are.
        count: How many items they share.
        called: What messages call the items.
        remedy: What to do, as a sentence.
    """
    warn_caller(f"Rank {rank} of {world_size} gets none of the {count} {called}. {remedy}")
