"""Merged states, the comparison of fingerprints, and runs of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdl._sealed import check_state, refuse_state


def ranks_of(argument: str, state: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the checked states in a merged state; [] if it is the state of one process."""
    if "ranks" not in state:
        return []
    ranks = state["ranks"]
    if not isinstance(ranks, list) or not ranks:
        refuse_state(argument, "is damaged: its 'ranks' are not a list of states")
    for each in ranks:
        check_state(argument, each, kind)
        if "ranks" in each:
            refuse_state(argument, "is damaged: one of its 'ranks' has 'ranks' itself")
    return ranks


def compare_fingerprints(theirs: object, ours: dict[str, Any]) -> None:
    """Raise a ValueError that names both, unless a state is of a pipeline like this one."""
    if not isinstance(theirs, dict):
        refuse_state("state", "is damaged: it has no fingerprint")
    stages, sources = theirs.get("stages"), theirs.get("sources")
    if stages != ours["stages"]:
        refuse_state(
            "state",
            f"was taken from a pipeline with other stages: {_show(stages)}; this pipeline has {_show(ours['stages'])}",
        )
    if not isinstance(sources, list) or len(sources) != len(ours["sources"]):
        refuse_state("state", "is damaged: it has no fingerprint of each source")
    for their, our in zip(sources, ours["sources"], strict=True):
        # A fact that one of them does not state is not compared.
        if not isinstance(their, dict) or any(their.get(name, value) != value for name, value in our.items()):
            refuse_state(
                "state",
                f"was taken from a pipeline with another source: {_show_source(their)}; this pipeline has "
                f"{_show_source(our)}",
            )


def _show(part: Any) -> str:
    if not isinstance(part, list):
        return repr(part)
    return " -> ".join(map(str, part)) or "none"


def _show_source(source: Any) -> str:
    if not isinstance(source, dict):
        return repr(source)
    text = str(source.get("type"))
    if "length" in source:
        text += f" of length {source['length']}"
    if "sample" in source:
        text += f" with fingerprint {source['sample']}"
    return text


def runs_to_state(numbers: Sequence[int]) -> list[int]:
    """Return ascending numbers as a flat list: where the first run begins, its length, the gap to the next, and so on.

    Example:
        >>> runs_to_state([10, 11, 12, 15])
        [10, 3, 2, 1]
    """
    state: list[int] = []
    before = following = 0
    for number in numbers:
        if state and number == following:
            state[-1] += 1
        else:
            state += (number - before, 1)
        before = following = number + 1
    return state


def runs_from_state(state: Sequence[int]) -> list[int]:
    """Return the ascending numbers from a list that `runs_to_state` made."""
    numbers: list[int] = []
    at = 0
    for gap, length in zip(state[::2], state[1::2], strict=True):
        numbers += range(at + gap, at + gap + length)
        at += gap + length
    return numbers
