"""What became of one file, in a word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WORST_FIRST = ("failed", "different", "read", "refused", "both refuse")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Finding:
    """What became of one file, in all ways: that of the way which did worst."""

    label: str
    format: str
    outcome: str
    """See `Outcome`."""
    way: str = ""
    """The way that shows it."""
    ours: str = ""
    """What we gave, or our error."""
    theirs: str = ""
    """What the oracle gave, or its error."""
    largest: float | None = None
    """For pixels and samples that differ: the largest difference, in all ways."""
    mean: float | None = None


def judge(label: str, file_format: str, path: str, result: Mapping[str, Any]) -> Finding:
    """Return what became of a file whose examination had this result. Errors lose its path."""
    if "failure" in result:
        return Finding(label, file_format, "failed", result["reader"], result["failure"])
    ways = result["ways"]
    for outcome in _WORST_FIRST:
        concerned = {name: way for name, way in ways.items() if way["outcome"] == outcome}
        if concerned:
            name, way = next(iter(concerned.items()))
            ours, theirs = (_without(path, way[key]) for key in ("ours", "theirs"))
            largest, mean = (_most(each[key] for each in concerned.values()) for key in ("largest", "mean"))
            return Finding(label, file_format, outcome, name, ours, theirs, largest, mean)
    return Finding(label, file_format, "equal")


def _without(path: str, text: str) -> str:
    """Return an error without what depends on the machine and the moment."""
    return _ADDRESS.sub("", text.replace(f"'{path}': ", "").replace(f"{path}: ", ""))


def _most(values: Iterable[float | None]) -> float | None:
    """Return the largest value, or None if one is unknown."""
    known = list(values)
    return None if None in known else max(value for value in known if value is not None)
