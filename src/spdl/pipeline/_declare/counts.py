"""Which stages make more or fewer items of what they get, as far as a declaration tells."""

from __future__ import annotations

import dis
from inspect import isasyncgenfunction, isgeneratorfunction
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .aggregator import Collate
from .op import bodies_of
from .records import AggregateConfig, DisaggregateConfig, PathVariantsConfig, PipeConfig
from .regions import outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType

    from .records import PipelineConfig, StageConfig

__all__ = ["changes_counts"]


def changes_counts(config: PipelineConfig[Any]) -> str | None:
    """Return the name of a stage that is known to change how many items there are; None if there is none.

    An op may do so of which this cannot be known: it returns what an object of the user's returned, say.
    """
    return _first(outside(config.pipes))


def _first(stages: Sequence[StageConfig]) -> str | None:
    for stage in stages:
        match stage:
            case DisaggregateConfig():
                return stage.name
            case AggregateConfig(op=op) if type(op) is not Collate:
                return stage.name
            case PipeConfig(op=op) if _may_make_another_number(op):
                return stage.name
            case PathVariantsConfig():
                for path in stage.paths:
                    if (found := _first(path)) is not None:
                        return found
            case _:
                pass
    return None


def _may_make_another_number(op: Any) -> bool:
    function, call = bodies_of(op)
    # The function of a class does not know whose method it is.
    owner = type(getattr(function, "__self__", function))
    return any(
        isgeneratorfunction(body) or isasyncgenfunction(body) or _may_return_none(body, owner, set())
        for body in (function, call)
    )


def _may_return_none(function: Any, owner: type, seen: set[CodeType]) -> bool:
    """Return whether a function has a line that returns None, or an end without a return, or returns one's result."""
    code = getattr(function, "__code__", None)
    # Those of this package return something for each item, or say what they do.
    if code is None or code in seen or str(function.__module__).startswith("spdl."):
        return False
    seen.add(code)
    steps = list(dis.get_instructions(code))
    places = {step.offset: place for place, step in enumerate(steps)}
    for place, step in enumerate(steps):
        returned = step.opname == "RETURN_CONST" or _followed_by_return(steps, places, place)
        if returned and step.opname in ("RETURN_CONST", "LOAD_CONST") and step.argval is None:
            # Where a context manager swallows an exception. Nearly none does.
            if [before.opname for before in steps[max(0, place - 2) : place]] != ["POP_TOP", "POP_TOP"]:
                return True
        elif returned and step.opname.startswith("CALL"):
            return any(_may_return_none(each, owner, seen) for each in _functions_named(function, owner, code))
    return False


def _followed_by_return(steps: list[dis.Instruction], places: dict[int, int], place: int) -> bool:
    place += 1
    while place < len(steps) and steps[place].opname == "JUMP_FORWARD":
        place = places[steps[place].argval]
    return place < len(steps) and steps[place].opname == "RETURN_VALUE"


def _functions_named(function: Any, owner: type, code: CodeType) -> Iterator[FunctionType]:
    """Yield the functions that a function may call, as far as these are variables or methods of its own."""
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    found = [function.__globals__.get(name) for name in code.co_names]
    found += [getattr(owner, name, None) for name in code.co_names]
    found += [cell.cell_contents for _, cell in cells if _is_filled(cell)]
    yield from (each for each in found if isinstance(each, FunctionType))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises.
    except ValueError:
        return False
    return True
