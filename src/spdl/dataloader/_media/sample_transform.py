"""A user's transform: what it gets of each sample, and how its results become a batch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spdl._check import refuse, show
from spdl.dataloader._loader.failures import UserCode
from spdl.dataloader._loader.tensors import OutputKind, all_to_torch, import_torch, to_torch
from spdl.dataloader._media.sample_fields import check_names, collate, gather, parts_of
from spdl.pipeline._declare.op import context_parameter

if TYPE_CHECKING:
    from spdl.dataloader._media.media_loader import MediaReader
    from spdl.pipeline import ItemContext

_TARGETS = "targets"
_PAIR = 2
_SIDES = 3


class SampleTransform:
    """Applies a function to the media of a batch, and to the targets of the samples if it has a parameter for them."""

    def __init__(self, function: Callable[..., Any], reader: MediaReader, output: OutputKind) -> None:
        self._function = function
        self._reader = reader
        self._medium = reader.batch_type.medium
        self._tensors = output == "torch"
        self._context = context_parameter(function)
        wanted = _find_targets(function)
        if wanted is not None and wanted.default is wanted.empty and reader.targets is None:
            accepted = "a function without a parameter `targets`, since the loader has none"
            refuse(ValueError, "transform", accepted, function, "ImageLoader(..., targets={...}) has.")
        self._targets = None if wanted is None else reader.targets
        named = [
            name for name, given in ((self._context, True), (_TARGETS, self._targets is not None)) if name and given
        ]
        _check_call(function, self._medium, named)
        self._must_keep = wanted is None and reader.targets is not None and bool(reader.targets.names)

    def apply(
        self, fields: dict[str, Any], contexts: Sequence[ItemContext], names: Sequence[str], num_threads: int
    ) -> dict[str, Any]:
        """Return the fields of a batch with what the function makes of them. Errors name the sample."""
        results: list[Any] = []
        moved: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for place, (each, context, name) in enumerate(zip(self._split(fields), contexts, names, strict=True)):
            given: dict[str, Any] = {self._context: context} if self._context else {}
            with UserCode(f"transforming {name}"):
                if self._targets is not None:
                    given[_TARGETS] = self._targets.give(fields, place)
                try:
                    result = self._function(each, **given)
                except Exception as error:
                    error.add_note(f"`transform` got {_described(each)}")
                    raise
                if result is None:
                    raise TypeError("`transform` returned None: it must return what becomes of the sample")
                if self._targets is not None:
                    result, targets = _split_pair(result)
                    moved.append(self._targets.take(targets, result))
                elif self._must_keep and (found := self._sides(result)) not in ((), self._sides(each)):
                    raise ValueError(
                        f"`transform` returned an image with other sides, {found}, and the loader has `targets`, which "
                        "did not move with it: give the function a parameter `targets`; see TorchvisionTransform"
                    )
            results.append(result)

        def finish(values: list[Any]) -> Any:
            return self._bring(self._reader.convert(values, fields, names, num_threads, alone=values is results))

        media = collate(results, names, finish)
        # One array stays a numpy array for the steps that follow.
        whole = not self._tensors or parts_of(results[0]) is None
        done = {**fields, self._medium: media if whole else all_to_torch(media)}
        if self._targets is None:
            return done
        own, others = zip(*moved, strict=True)
        more: dict[str, Any] = collate(list(others), names, self._bring)
        check_names("some targets that `transform` returned", more, *fields)
        return {**done, **self._targets.gather(own), **(all_to_torch(more) if self._tensors else more)}

    def _split(self, fields: dict[str, Any]) -> list[Any]:
        data = fields[self._medium]
        if not self._tensors:
            return list(data)
        if data.dtype.hasobject:
            return list(map(import_torch().from_numpy, data))
        return list(to_torch({self._medium: data})[self._medium])

    def _sides(self, image: Any) -> tuple[int, ...]:
        shape = tuple(getattr(image, "shape", ()))
        return () if len(shape) < _SIDES else shape[-2:] if self._tensors else shape[-3:-1]

    def _bring(self, values: Any) -> Any:
        if not isinstance(values, list):
            return values
        if self._tensors:
            tensor = import_torch().Tensor
            if all(isinstance(it, tensor) and it.shape == values[0].shape for it in values):
                return import_torch().stack(values)
        return gather(values)


def _find_targets(function: Callable[..., Any]) -> inspect.Parameter | None:
    """Return the parameter for targets, if there is one that is not bound already."""
    if isinstance(function, functools.partial) and _TARGETS in function.keywords:
        return None
    try:
        found = inspect.signature(function).parameters.get(_TARGETS)
    except (TypeError, ValueError):
        return None
    return found if found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY) else None


def _check_call(function: Callable[..., Any], medium: str, named: list[str]) -> None:
    """Raise TypeError unless a function can be called with a medium, and the other arguments by their names."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, **dict.fromkeys(named))
    except TypeError as error:
        call = ", ".join([medium, *(f"{name}={name}" for name in named)])
        accepted = f"a function that can be called as transform({call})"
        remedy = f"Python says: {error}."
        if medium == "image" and _TARGETS not in named:
            remedy += (
                " For a mask or boxes beside the image, pass `targets` to the loader: a function with a parameter "
                "`targets` gets a dict of them, and returns the image and a dict."
            )
        refuse(TypeError, "transform", accepted, function, remedy)


def _split_pair(result: Any) -> tuple[Any, Mapping[str, Any]]:
    if isinstance(result, tuple | list) and len(result) == _PAIR and isinstance(result[1], Mapping):
        return result[0], result[1]
    raise TypeError(
        "`transform` has a parameter `targets`, so it must return a pair: the image, and a mapping of the targets; got "
        f"{show(result)}"
    )


def _described(sample: Any) -> str:
    kind = type(sample).__name__
    return f"a {kind} of {sample.dtype}, {tuple(sample.shape)}" if hasattr(sample, "shape") else f"a {kind}"
