"""Binds the arguments of a call to the parameters of a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .values import ABSENT, PLAIN, UNASSIGNED, Value

if TYPE_CHECKING:
    from .any_search import AnySearch
    from .function_source import FunctionNode
    from .values import Args

__all__ = ["bind"]


def bind(
    search: AnySearch, node: FunctionNode, args: Args, defaults: list[Value], keyword_defaults: dict[str, Value]
) -> dict[str, Value]:
    """Return the values of the parameters."""
    spec = node.args
    places = [it.arg for it in (*spec.posonlyargs, *spec.args)]
    names: dict[str, Value] = dict.fromkeys([*places, *(it.arg for it in spec.kwonlyargs)], UNASSIGNED)
    others = args.others
    if others is not None:
        names = dict.fromkeys(names, others)
    for name, value in zip(places[len(places) - len(defaults) :], defaults, strict=True):
        names[name] |= value
    for name, value in keyword_defaults.items():
        names[name] |= value
    given = {name: value for name, value in args.keywords if name not in {it.arg for it in spec.posonlyargs}}
    for name, value in (*zip(places, args.positional, strict=False), *given.items()):
        if name in names:
            names[name] = value
    if spec.vararg:
        rest = PLAIN.union(*args.positional[len(places) :], others or ABSENT)
        names[spec.vararg.arg] = search.made(spec.vararg, rest, tuple)
    if spec.kwarg:
        rest = PLAIN.union(
            *(value for name, value in args.keywords if name not in names or name not in given), others or ABSENT
        )
        names[spec.kwarg.arg] = search.made(spec.kwarg, rest, dict)
    return names
