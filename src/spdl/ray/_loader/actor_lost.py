"""The exception for an actor that is gone."""

from __future__ import annotations

__all__ = ["ActorLostError"]


class ActorLostError(RuntimeError):
    """An actor has ended before its work was done, and nobody takes its place.

    It is raised with ``on_loss="raise"``, and if one actor after the other ends without having returned anything. The
    loader's `state_dict` is exact all the same, so a new loader can go on from there.

    Example:
        >>> from spdl.ray import ActorLostError
        >>> issubclass(ActorLostError, RuntimeError)
        True
    """
