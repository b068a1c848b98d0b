"""What all states share: the envelope with kind, version and checksum."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn
from zlib import crc32

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import refuse, show
from spdl._locate import callers_line

_NAME = "checksum"


# States of earlier versions are read, of later ones not.
VERSION = 1


def sealed(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return a state that one kind of object may load: the content in its envelope.

    The checksum takes some ten microseconds for 1 kB.
    """
    state = {"spdl": kind, "version": VERSION, **content}
    return {**state, _NAME: checksum_of(state)}


def checksum_of(state: dict[str, Any]) -> int:
    """Return the checksum of all that a state holds apart from its checksum.

    It is the same after JSON, pickle or another order of the keys. A part that is the sealed state of another object
    stands for itself by its own checksum, so it is not gone through twice. The code that loads it checks that. It
    raises RecursionError or ValueError if the state is nested without end, or holds an int that Python does not write.
    """
    content = {name: _stand_in(part) for name, part in state.items() if name != _NAME}
    try:
        text = _SORTED.encode(content)
    except TypeError:  # Keys that cannot be compared with each other, or that JSON does not have.
        text = None
    if text is None or _OTHER_KEY.search(text):
        # As JSON brings it back: with keys that are texts, sorted as such.
        text = _SORTED.encode(json.loads(_LOOSE.encode(content)))
    return crc32(text.encode())


def _stand_in(part: Any) -> Any:
    return part[_NAME] if type(part) is dict and "spdl" in part and _NAME in part else part


def _type_name(value: object) -> str:
    return type(value).__qualname__


# What JSON cannot hold, as the state of a user's source may, counts by its type only: it may have no other text that is
# the same in the next process.
_SORTED = json.JSONEncoder(sort_keys=True, default=_type_name)
_LOOSE = json.JSONEncoder(skipkeys=True, default=_type_name)

# A key that may have been another than a str. They are sorted in another way before JSON than after.
_OTHER_KEY = re.compile(r'"(?:-?\d[^"]*|-?Infinity|NaN|true|false|null)": ')


def check_state(argument: str, state: object, kind: str) -> None:
    """Raise a TypeError unless it is a dict, and a ValueError unless it is a whole state of this kind of object.

    Its version has to be one that can be read.
    """
    if not isinstance(state, dict):
        refuse(TypeError, argument, "a dict, as `state_dict()` returns one", state)
    found, version = state.get("spdl"), state.get("version")
    if found != kind:
        what = (
            f"is of {_with_article(found)}" if isinstance(found, str) else "is not a state that `state_dict()` returned"
        )
        refuse_state(argument, f"{what}, and this is {_with_article(kind)}")
    if type(version) is not int or version < 1:
        refuse_state(argument, "has no version")
    if version > VERSION:
        refuse_state(
            argument,
            f"has version {version}, and this release of spdl reads versions up to {VERSION}: update spdl",
        )
    if "ranks" not in state:  # Each of those has its own.
        _check_seal(argument, state)


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'AEIe' else 'a'} {kind}"


def _check_seal(argument: str, state: dict[str, Any]) -> None:
    """Raise a ValueError if something in a state was removed or replaced."""
    if "checksum" not in state:
        refuse_state(argument, "is damaged: it has no 'checksum', so a part of it was cut off")
    written = state["checksum"]
    try:
        found: object = checksum_of(state)
    except (RecursionError, ValueError) as error:
        found = f"none ({error})"
    if type(written) is not int or written != found:
        refuse_state(
            argument,
            f"is damaged: its 'checksum' is {show(written)}, but its content's checksum is {found}, so something in it "
            "was removed or replaced since `state_dict()` returned it",
        )


def refuse_state(argument: str, what: str) -> NoReturn:
    raise ValueError(f"`{argument}` {what} ({callers_line()}).")
