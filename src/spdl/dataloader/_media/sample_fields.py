"""From samples to the fields of a batch, which are arrays and lists."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np

from spdl._check import refuse, refuse_masked
from spdl.dataloader._loader.batches import Jagged, LabelledBatch
from spdl.dataloader._loader.tensors import import_torch
from spdl.io._shared import Padding, map_parts
from spdl.source import ArraySample, ImageSample, MediaSample

RaggedLayout: TypeAlias = Literal["list", "pad", "offsets"]
Ragged: TypeAlias = RaggedLayout | Mapping[str, RaggedLayout]

_PAIR = 2
# They have their position in the source that made them, which another one may hand on.
_WITH_INDEX = (ArraySample, ImageSample, MediaSample)
# Fields that describe a batch, and methods of a batch.
_SAID = {"epoch", "failures"}
_DONE = {name for name in dir(LabelledBatch) if callable(getattr(LabelledBatch, name))} - {"index"}


def to_columns(samples: Sequence[Any], medium: str, indices: Sequence[int]) -> dict[str, list[Any]]:
    """Return the fields of samples by their names, each as a list.

    Samples are named tuples, mappings, dataclasses or plain objects with fields, among them the `medium`, such as
    ``"image"``; pairs of a medium and a label; or the media alone. Their `indices` in the source become a field.
    """
    first = samples[0]
    names = getattr(type(first), "_fields", None)
    if names is not None and all(type(sample) is type(first) for sample in samples):
        columns = {name: list(column) for name, column in zip(names, zip(*samples, strict=True), strict=True)}
    else:
        records = [_to_record(sample, medium) for sample in samples]
        columns = {name: [] for name in records[0]}
        for record, index in zip(records, indices, strict=True):
            if record.keys() != columns.keys():
                accepted = f"a sample with the fields {', '.join(columns)}, as sample {indices[0]} has"
                refuse(TypeError, f"source[{index}]", accepted, tuple(record))
            for name, value in record.items():
                columns[name].append(value)
    if medium not in columns:
        accepted = f"a sample with a field `{medium}`, a pair ({medium}, label), or a path"
        refuse(TypeError, f"source[{indices[0]}]", accepted, first, _remedy(columns, medium))
    check_names(f"some fields of sample {indices[0]}", columns)
    if "index" in columns and not isinstance(first, _WITH_INDEX):
        for value, index in zip(columns["index"], indices, strict=True):
            if not isinstance(value, Integral) or value != index:
                accepted = f"left out, or {index}: a batch has the position in the source by this name"
                refuse(ValueError, f"source[{index}].index", accepted, value, "Give the field another name.")
    columns.setdefault("label", [None] * len(samples))
    if "path" not in columns:
        columns["path"] = [os.fsdecode(it) if isinstance(it, str | os.PathLike) else None for it in columns[medium]]
    columns["index"] = list(indices)
    return columns


def _remedy(columns: Mapping[str, list[Any]], medium: str) -> str:
    sizes = {name: len(values[0]) for name, values in columns.items() if isinstance(values[0], memoryview | bytes)}
    if not sizes:
        return ""
    # Beside a caption and a label, the medium is the largest.
    field = max(sizes, key=sizes.__getitem__)
    return (
        f"If it is {field!r}: spdl.source.MappedRecords(source, lambda sample: "
        f"{{{medium!r}: sample[{field!r}], 'label': ...}})."
    )


def check_names(what: str, names: Iterable[str], *more: str) -> None:
    """Refuse names of fields, called `what` in the message, that a batch uses itself, or that are among `more`."""
    taken = sorted((_SAID | _DONE | set(more)).intersection(names))
    if taken:
        raise ValueError(
            f"{what} cannot be fields of a batch: rename {' and '.join(map(repr, taken))}, which a batch uses itself"
        )


def gather(values: list[Any], *, name: str = "array", tensors: bool = False) -> Any:
    """Return an array of values if they are numbers or arrays of one shape, None if all are None, else the list.

    Ints and bools become int64, other numbers float32. Ints that are too large stay in the list, as text does. Tensors
    of a type that NumPy lacks, such as bfloat16, become one tensor if the batch has `tensors`.
    """
    kinds = set(map(type, values))
    if kinds == {int} or all(issubclass(kind, Integral | np.bool_) for kind in kinds):
        try:
            return np.array(values, np.int64)
        except OverflowError:
            return values
    if all(issubclass(kind, Real | np.bool_) for kind in kinds):
        return np.array(values, np.float32)
    if kinds == {type(None)}:
        return None
    arrays = [to_array(value, name) for value in values]
    if all(array is not None and array.shape == arrays[0].shape and array.dtype.kind in "biufc" for array in arrays):
        return np.stack(arrays)
    return _stack_tensors(values) if tensors else values


def _stack_tensors(values: list[Any]) -> Any:
    alike = {(value.dtype, value.shape, value.device) if is_tensor(value) else None for value in values}
    if len(alike) > 1 or None in alike:
        return values
    return import_torch().stack([value.detach() for value in values])


def collate(values: list[Any], names: Sequence[str], bring: Callable[[list[Any]], Any]) -> Any:
    """Return what a function made of each sample as one thing: of records and tuples a record or tuple of such.

    `bring` brings values together that are neither.
    """
    parts = [parts_of(value) for value in values]
    kinds = [None if own is None else (type(value), frozenset(own)) for value, own in zip(values, parts, strict=True)]
    for kind, name in zip(kinds, names, strict=True):
        if kind != kinds[0]:
            shown = [_show_kind(it) for it in (kind, kinds[0])]
            raise TypeError(
                f"`transform` returned {shown[0]} for {name}, and {shown[1]} for {names[0]}: it must return the same "
                "parts for all samples, since a batch has them of all."
            )
    first = parts[0]
    if first is None:
        return bring(values)
    columns = iter([collate([own[key] for own in parts if own is not None], names, bring) for key in first])
    return map_parts(lambda _: next(columns), values[0])


def parts_of(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, tuple):
        return dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def _show_kind(kind: tuple[type, frozenset[Any]] | None) -> str:
    return "no record" if kind is None else f"a {kind[0].__name__} of {', '.join(sorted(map(repr, kind[1])))}"


def shapes_of(arrays: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (str(array.dtype), array.shape[1:]) for name, array in sorted(arrays.items())}


def to_array(value: Any, name: str = "array") -> Any:
    """Return an array or a tensor in main memory as a numpy array; None if it is neither, or NumPy lacks its type."""
    if isinstance(value, np.ndarray | np.generic):
        refuse_masked(name, value)
        return np.asarray(value)
    if is_tensor(value):
        try:
            return value.detach().numpy()
        except TypeError:
            return None
    return None


def is_tensor(value: Any) -> bool:
    # Another thread may just be importing torch, whose subclasses have other modules.
    return hasattr(type(value), "new_tensor") and hasattr(value, "numpy")


def _to_record(sample: Any, medium: str) -> dict[str, Any]:
    is_pair = isinstance(sample, tuple | list) and not hasattr(type(sample), "_fields")
    if is_pair:
        return {medium: sample[0], "label": sample[1]} if len(sample) == _PAIR else {medium: sample}
    record = parts_of(sample)
    if record is None:
        record = vars(sample) if hasattr(sample, medium) else {medium: sample}
    return dict(record)


# ---- fields that have a different number of rows in each sample ----


def to_objects(rows: Sequence[Any]) -> Any:
    found = np.full(len(rows), None, object)
    for place, each in enumerate(rows):
        found[place] = each
    return found


def lay_out(
    name: str,
    rows: list[Any],
    layout: RaggedLayout,
    taken: Container[str],
    *,
    pad_value: float = 0,
    dtype: Any = None,
) -> dict[str, Any]:
    """Return the fields of a batch that have the rows of its samples, which the layout of lists leaves unchanged.

    If all samples share an array, it has the `dtype`, or the one that all rows have.
    """
    if layout == "list":
        return {name: rows}
    if layout == "pad":
        mask = f"{name}_mask"
        if mask in taken:
            raise ValueError(f"`ragged` adds the field {mask!r}, which the samples have already: rename it.")
        values, is_there, _ = Padding(pad_value, dtype=dtype).apply(rows)
        return {name: values, mask: is_there}
    arrays, own = Padding(dtype=dtype).read(rows)
    values = np.concatenate([each.astype(own, copy=False) for each in arrays])
    return {name: Jagged(values, np.cumsum([0, *map(len, rows)], dtype=np.int64))}
