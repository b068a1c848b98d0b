"""Makes a program that fails smaller, as long as it fails."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from .program import Fork, Meddling, Program, all_pipes


def shrink(program: Program, fails: Callable[[Program], bool], *, tries: int = 400) -> Program:
    """Return a smaller program that fails as well. Greedy: the first smaller one that fails is taken.

    Args:
        program: One that fails.
        fails: Whether a program fails. If that depends on chance, run it several times.
        tries: How many programs are tried at most.
    """
    left = tries
    again = True
    while again and left > 0:
        again = False
        for smaller in map(_keep_valid, _smaller(program)):
            left -= 1
            if left < 0:
                break
            if fails(smaller):
                program = smaller
                again = True
                break
    return program


def _smaller(value: Any) -> Iterator[Any]:
    """Yield records that differ from this one by one step, the largest steps first."""
    yield from _with_fewer(value)
    for field in fields(value):
        yield from _plainer(value, field, getattr(value, field.name))
    yield from _with_smaller(value)


def _with_fewer(value: Any) -> Iterator[Any]:
    for field in fields(value):
        old = getattr(value, field.name)
        if isinstance(old, tuple):
            for new in _shorter(field.name, old):
                yield replace(value, **{field.name: new})


def _with_smaller(value: Any) -> Iterator[Any]:
    for field in fields(value):
        old = getattr(value, field.name)
        if isinstance(old, tuple):
            for index, entry in enumerate(old):
                for new in _smaller_path(entry) if isinstance(entry, tuple) else _smaller(entry):
                    yield replace(value, **{field.name: (*old[:index], new, *old[index + 1 :])})
        elif dataclasses.is_dataclass(old):
            for new in _smaller(old):
                yield replace(value, **{field.name: new})


def _smaller_path(path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for index in range(len(path) if len(path) > 1 else 0):
        yield (*path[:index], *path[index + 1 :])
    for index, stage in enumerate(path):
        for new in _smaller(stage):
            yield (*path[:index], new, *path[index + 1 :])


def _shorter(name: str, entries: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    least = 1 if name in ("sources", "paths") else 0
    if len(entries) <= least:
        return
    for index, entry in enumerate(entries):
        yield (*entries[:index], *entries[index + 1 :])
        if isinstance(entry, Fork):
            for path in entry.paths:
                yield (*entries[:index], *path, *entries[index + 1 :])


def _plainer(owner: Any, field: dataclasses.Field[Any], old: Any) -> Iterator[Any]:
    if field.name in ("name", "seed") or isinstance(old, tuple) or dataclasses.is_dataclass(old):
        return
    default = field.default
    if old != default and default is not dataclasses.MISSING:
        yield replace(owner, **{field.name: default})
    if isinstance(old, int) and not isinstance(old, bool):
        low = default if isinstance(default, int) else 0
        for new in (old // 2, old - 1):
            if low < new < old:
                yield replace(owner, **{field.name: new})


def _keep_valid(program: Program) -> Program:
    """Return the program without deeds to stages that are gone."""
    names = {pipe.name for pipe in all_pipes(program)} | {"sink", ""}
    pooled = {pipe.name for pipe in all_pipes(program) if pipe.pool}
    kept: tuple[Meddling, ...] = tuple(
        deed for deed in program.meddling if deed.stage in (pooled if deed.deed == "shut_pool" else names)
    )
    return replace(program, meddling=kept)
