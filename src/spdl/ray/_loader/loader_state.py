"""What a loader's state holds."""

from __future__ import annotations

from typing import Any, NamedTuple

from spdl.pipeline._pipeline.seal import sealed
from spdl.pipeline._pipeline.state import VERSION, check_state, compare_fingerprints, refuse_state
from spdl.ray._leases.parts import Parts
from spdl.ray._leases.ranges import ranges_from_state

__all__ = ["Left", "read_state", "write_state"]

_KIND = "ray"


class Left(NamedTuple):
    """What is left of an epoch.

    Attributes:
        epoch: Its number.
        position: The first position that nobody was granted.
        out: The ranges below it that were not delivered.
        parts: The results that were delivered of items of which others were not, as `Parts` writes them.
        source: What the source said of itself before the pass.
        begun: Whether that is known.
    """

    epoch: int
    position: int
    out: list[tuple[int, int]]
    parts: list[Any]
    source: Any
    begun: bool


def write_state(left: Left, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """Return a state, with a checksum."""
    return sealed(
        {
            "spdl": _KIND,
            "version": VERSION,
            "fingerprint": fingerprint,
            "epoch": left.epoch,
            "position": left.position,
            "out": [list(each) for each in left.out],
            "parts": left.parts,
            "source": left.source,
        }
    )


def read_state(state: object, fingerprint: dict[str, Any], length: int | None) -> Left:
    """Return what a state says, checked.

    Raises:
        TypeError: If it is no dict.
        ValueError: If it is damaged, too new, or of another pipeline.
    """
    check_state("state", state, _KIND)
    assert isinstance(state, dict)
    compare_fingerprints(state.get("fingerprint"), fingerprint)
    epoch, position = (state.get(name) for name in ("epoch", "position"))
    if type(epoch) is not int or type(position) is not int or epoch < 0 or position < 0:
        refuse_state("state", "is damaged: its 'epoch' or 'position' is no number")
    if length is not None and position > length:
        refuse_state("state", f"is of a longer source: it has position {position}, and this source has {length} items")
    try:
        out = ranges_from_state(state.get("out"))
        Parts(state.get("parts"))
    except ValueError as error:
        refuse_state("state", f"is damaged: {error}")
    if out and out[-1][1] > position:
        refuse_state("state", "is damaged: it has ranges that were not granted")
    return Left(epoch, position, out, state["parts"], state.get("source"), begun=True)
