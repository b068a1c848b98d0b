"""What a pipeline's state says besides positions: its version, and of which pipeline it is."""

from __future__ import annotations

import warnings
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, NoReturn
from zlib import crc32

from spdl._check import refuse
from spdl._locate import callers_line
from spdl.pipeline._engine.source_passes import mark_of
from spdl.pipeline._engine.resumption import has_state, how_to_seek

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

__all__ = ["VERSION", "check_state", "compare_fingerprints", "refuse_state", "source_fingerprints", "warn_of_replay"]

# States of earlier versions are read, of later ones not.
VERSION = 1

# So many elements of a sequence are looked at, evenly spread.
_SAMPLED = 64


def check_state(argument: str, state: object, kind: str) -> None:
    """Raise unless it is a state of this kind of object, of a version that can be read.

    Raises:
        TypeError: If it is no dict.
        ValueError: If it is of another kind of object, of a newer version, or of none.
    """
    if not isinstance(state, dict):
        refuse(TypeError, argument, "a dict, as `state_dict()` returns one", state)
    found, version = state.get("spdl"), state.get("version")
    if found != kind:
        what = f"is of a {found}" if isinstance(found, str) else "is no state that `state_dict()` returned"
        refuse_state(argument, f"{what}, and this is a {kind}")
    if type(version) is not int or version < 1:
        refuse_state(argument, "has no version")
    if version > VERSION:
        refuse_state(
            argument,
            f"has version {version}, and this release of spdl reads versions up to {VERSION}: update spdl",
        )


def refuse_state(argument: str, what: str) -> NoReturn:
    """Raise the ValueError that says what is wrong with a state."""
    raise ValueError(f"`{argument}` {what} ({callers_line()}).")


def source_fingerprints(engine: Engine) -> list[Any]:
    """Return what the sources are known by. Asks them for their length."""
    return [_fingerprint(source.iterable) for source in sorted(engine.sources, key=lambda source: source.index)]


def _fingerprint(source: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": type(source).__qualname__}
    if has_state(source):
        # It compares what it is given with what it is.
        return found
    if isinstance(source, Sized):
        try:
            found["length"] = len(source)
        except Exception:  # noqa: BLE001 - one that wraps another may have none.
            return found
    if type(source) in (list, tuple, range, str, bytes) and source:
        step = max(1, len(source) // _SAMPLED)
        marks = "|".join(str(mark_of(source[index])) for index in range(0, len(source), step))
        found["sample"] = f"{crc32(marks.encode('utf-8', 'surrogatepass')):08x}"
    return found


def compare_fingerprints(theirs: object, ours: dict[str, Any]) -> None:
    """Raise unless a state is of a pipeline like this one.

    Raises:
        ValueError: If it is of another; the message names both.
    """
    if not isinstance(theirs, dict):
        refuse_state("state", "is damaged: it has no fingerprint")
    for part, what in (("stages", "stages"), ("sources", "source")):
        if theirs.get(part) != ours[part]:
            refuse_state(
                "state",
                f"was taken of a pipeline with another {what}: {_show(theirs.get(part))}; this pipeline has "
                f"{_show(ours[part])}",
            )


def _show(part: Any) -> str:
    if not isinstance(part, list):
        return repr(part)
    if all(isinstance(each, str) for each in part):
        return " -> ".join(part) or "no stages"
    return ", ".join(_show_source(each) for each in part)


def _show_source(source: Any) -> str:
    if not isinstance(source, dict):
        return repr(source)
    text = str(source.get("type"))
    if "length" in source:
        text += f" of length {source['length']}"
    if "sample" in source:
        text += f" with fingerprint {source['sample']}"
    return text


def warn_of_replay(engine: Engine) -> None:
    """Warn if a source has to be iterated from its beginning to get to where it was."""
    for source in engine.sources:
        if source.must_replay() and how_to_seek(source.iterable) == "replay":
            message = (
                f"The source {type(source.iterable).__name__!r} cannot begin at a position, so it is iterated from the "
                "beginning of the epoch, and the items that were received are thrown away before the first stage. It "
                "must yield the same items in the same order. To begin at once, give it a method "
                "`iterate_from(position)`, or pass a list or another sequence."
            )
            warnings.warn(message, stacklevel=3)
