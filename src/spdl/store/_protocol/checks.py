"""Checks of what stores are given."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from spdl._check import check_int, refuse
from spdl.store._protocol.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_inside", "check_object_path", "check_prefix", "check_ranges"]

_ACCEPTED = "the path of an object below the store, such as 'train/0.tar' (no '/' at its ends, no empty part, no '..')"
_STEPS = ("", ".", "..")


def check_object_path(path: object) -> str:
    """Return the path of an object."""
    if not isinstance(path, str):
        refuse(TypeError, "path", "a str", path)
    # The first condition is for speed.
    if (not path or path[0] in "/." or path[-1] == "/" or "//" in path or "/." in path or "\0" in path) and (
        "\0" in path or any(part in _STEPS for part in path.split("/"))
    ):
        refuse(ValueError, "path", _ACCEPTED, path)
    return path


def check_prefix(prefix: object) -> str:
    """Return the path of a folder or object without a slash at its end; an empty one is the whole store."""
    if not isinstance(prefix, str):
        refuse(TypeError, "prefix", "a str", prefix)
    whole, prefix = prefix, prefix.removesuffix("/")
    if whole and ("\0" in prefix or any(part in _STEPS for part in prefix.split("/"))):
        refuse(ValueError, "prefix", "a folder below the store, such as 'train', or '' for all of it", whole)
    return prefix


def check_ranges(starts: Sequence[int], lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return where ranges begin and how long they are, as lists of ints."""
    try:
        begins = [operator.index(start) for start in starts]
        sizes = [operator.index(length) for length in lengths]
    except TypeError:
        begins, sizes = [-1], [-1]
    if len(begins) != len(sizes):
        refuse(ValueError, "lengths", f"as many as `starts`, which are {len(begins)}", lengths)
    if begins and (min(begins) < 0 or min(sizes) < 0):
        for name, given in (("starts", starts), ("lengths", lengths)):
            for number in _listed(name, given):
                check_int(name, number, least=0, accepted="ints of at least 0")
    return begins, sizes


def check_inside(path: str, store: str, starts: Sequence[int], lengths: Sequence[int], size: int) -> None:
    """Raise StoreError if one of the ranges reaches beyond the end of an object.

    The store is named by its repr.
    """
    for start, length in zip(starts, lengths, strict=True):
        if start + length > size and length:
            raise StoreError(
                f"{path} in {store}: it has {size} bytes, but bytes {start} to {start + length} were asked for"
            )


def _listed(name: str, given: Sequence[int]) -> list[int]:
    try:
        return list(given)
    except TypeError:
        refuse(TypeError, name, "a sequence of ints", given)
