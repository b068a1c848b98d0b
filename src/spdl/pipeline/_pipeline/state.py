"""What a pipeline's state says besides positions: its version, and of which pipeline it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from spdl._check import refuse, show
from spdl._locate import callers_line, warn_caller
from spdl.pipeline._engine.resumption import how_to_seek
from spdl.pipeline._nodes.aggregator_node import AggregateNode

from .seal import checksum_of

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

__all__ = [
    "VERSION",
    "check_state",
    "compare_fingerprints",
    "ranks_of",
    "refuse_state",
    "source_fingerprints",
    "warn_of_dropped",
    "warn_of_nothing",
    "warn_of_replay",
]

# States of earlier versions are read, of later ones not.
VERSION = 1


def check_state(argument: str, state: object, kind: str) -> None:
    """Raise unless it is a whole state of this kind of object, of a version that can be read.

    Raises:
        TypeError: If it is no dict.
        ValueError: If it is of another kind of object, of a newer version, of none, or if something in it was removed
            or replaced.
    """
    if not isinstance(state, dict):
        refuse(TypeError, argument, "a dict, as `state_dict()` returns one", state)
    found, version = state.get("spdl"), state.get("version")
    if found != kind:
        what = f"is of {_with_article(found)}" if isinstance(found, str) else "is no state that `state_dict()` returned"
        refuse_state(argument, f"{what}, and this is {_with_article(kind)}")
    if type(version) is not int or version < 1:
        refuse_state(argument, "has no version")
    if version > VERSION:
        refuse_state(
            argument,
            f"has version {version}, and this release of spdl reads versions up to {VERSION}: update spdl",
        )
    if "ranks" not in state:  # Each of those has its own.
        check_seal(argument, state)


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'AI' else 'a'} {kind}"


def check_seal(argument: str, state: dict[str, Any]) -> None:
    """Raise unless a state is whole: if something in it was removed or replaced.

    Raises:
        ValueError: If so.
    """
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
            f"is damaged: its 'checksum' is {show(written)}, and that of its content is {found}, so something in it "
            "was removed or replaced since `state_dict()` returned it",
        )


def ranks_of(argument: str, state: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the states that a merged one is made of, checked; [] if it is that of one process."""
    if "ranks" not in state:
        return []
    ranks = state["ranks"]
    if not isinstance(ranks, list) or not ranks:
        refuse_state(argument, "is damaged: its 'ranks' are no list of states")
    for each in ranks:
        check_state(argument, each, kind)
        if "ranks" in each:
            refuse_state(argument, "is damaged: one of its 'ranks' has ranks of its own")
    return ranks


def refuse_state(argument: str, what: str) -> NoReturn:
    """Raise the ValueError that says what is wrong with a state."""
    raise ValueError(f"`{argument}` {what} ({callers_line()}).")


def source_fingerprints(engine: Engine) -> list[Any]:
    """Return what the sources are known by. Asks those that are not built-in sequences for their length."""
    return [source.identity.complete() for source in sorted(engine.sources, key=lambda source: source.index)]


def compare_fingerprints(theirs: object, ours: dict[str, Any]) -> None:
    """Raise unless a state is of a pipeline like this one.

    Raises:
        ValueError: If it is of another; the message names both.
    """
    if not isinstance(theirs, dict):
        refuse_state("state", "is damaged: it has no fingerprint")
    stages, sources = theirs.get("stages"), theirs.get("sources")
    if stages != ours["stages"]:
        refuse_state(
            "state",
            f"was taken of a pipeline with other stages: {_show(stages)}; this pipeline has {_show(ours['stages'])}",
        )
    if not isinstance(sources, list) or len(sources) != len(ours["sources"]):
        refuse_state("state", "is damaged: it has no fingerprint of each source")
    for their, our in zip(sources, ours["sources"], strict=True):
        # What one of them does not say is not compared.
        if not isinstance(their, dict) or any(their.get(name, value) != value for name, value in our.items()):
            refuse_state(
                "state",
                f"was taken of a pipeline with another source: {_show_source(their)}; this pipeline has "
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
            warn_caller(message, UserWarning)


def warn_of_dropped(engine: Engine) -> None:
    """Warn if a stage may drop other items than in an uncut run."""
    for node in engine.nodes:
        if isinstance(node, AggregateNode) and node.drops_held_back():
            message = (
                f"Stage {node.name!r} holds items back and drops what is left at the end of an epoch. In the epoch "
                "that is resumed it gets fewer items, so it may drop others than the uncut run would have. Without "
                "`drop_last=True` nothing is lost."
            )
            warn_caller(message, UserWarning)


def warn_of_nothing(engine: Engine) -> None:
    """Warn that no source has given anything."""
    kinds = ", ".join(repr(source.identity.type) for source in engine.sources)
    warn_caller(
        f"The source of the pipeline ({kinds}) has yielded nothing, so the pipeline does. A path or a filter may be "
        "wrong, or the source may be an iterator that was used before: give an iterable that starts anew, such as a "
        "list or an object whose `__iter__` makes a generator."
    )
