"""Finds out whether an op asks for the context of its item."""

from __future__ import annotations

from functools import partial
from inspect import Parameter, signature
from typing import Any

from spdl._check import refuse

from .item_context import ItemContext
from .op import bodies_of

__all__ = ["context_parameter"]


def context_parameter(op: object) -> str | None:
    """Return the name of the parameter that is annotated with `ItemContext`; None if there is none.

    Raises:
        TypeError: If there are several, if it is the first parameter, or if it cannot be passed by keyword.
    """
    named = next((names for body in bodies_of(op) if (names := _annotated(body))), None)
    if named is None:
        return None
    bound = _bound_names(op)
    try:
        parameters = list(signature(op).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    found = [each for each in parameters if each.name in named and each.name not in bound]
    found = [each for each in found if each.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)]
    if not found:
        return None
    accepted = "an op of an item and at most one ItemContext, which can be passed by keyword"
    if len(found) > 1 or found[0] is parameters[0] or found[0].kind is Parameter.POSITIONAL_ONLY:
        refuse(TypeError, "op", accepted, op)
    return found[0].name


def _annotated(body: Any) -> list[str]:
    """Return the parameters of a function that are annotated with the class, without evaluating annotations."""
    try:
        annotations = getattr(body, "__annotations__", None)
    except Exception:  # noqa: BLE001 - where annotations are evaluated late, they may name what is not there.
        return []
    if not isinstance(annotations, dict) or not annotations:
        return []
    names = getattr(body, "__globals__", {})
    return [name for name, value in annotations.items() if name != "return" and _names_context(value, names)]


def _names_context(annotation: object, names: dict[str, Any]) -> bool:
    if not isinstance(annotation, str):
        return annotation is ItemContext
    # As it was written, if annotations are not evaluated.
    text = annotation.strip("'\" ")
    return text.rpartition(".")[2] == "ItemContext" or names.get(text) is ItemContext


def _bound_names(op: object) -> set[str]:
    bound: set[str] = set()
    while isinstance(op, partial):
        bound |= op.keywords.keys()
        op = op.func
    return bound
