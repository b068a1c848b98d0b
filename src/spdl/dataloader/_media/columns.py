"""The fields of several samples, as columns, and how they become arrays on a device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from spdl._check import refuse
from spdl.dataloader._media.batch import LabelledBatch
from spdl.io import transfer_tensor_h2d
from spdl.io._device.transfer_tensor import map_tensors

if TYPE_CHECKING:
    import torch

__all__ = ["check_device", "check_names", "gather", "send", "shapes_of", "to_array", "to_columns"]


def check_device(device: Any, output: str) -> torch.device | None:
    """Return the device as PyTorch's, or None for main memory.

    Raises:
        ImportError: If there is no PyTorch.
        TypeError, ValueError: If it is no device, or batches are no tensors.
    """
    if device is None:
        return None
    if output != "torch":
        refuse(ValueError, "device", f"None with `output={output!r}`, since only tensors can be moved", device)
    try:
        import torch  # noqa: PLC0415 - an optional dependency.
    except ImportError as error:
        msg = "`device` needs PyTorch, which is not installed: `pip install 'spdl-turbo[torch]'`"
        raise ImportError(msg) from error
    accepted = "a device as PyTorch takes it, such as 'cuda', or None"
    try:
        found = torch.device(device)
    except RuntimeError as error:
        refuse(ValueError, "device", accepted, device, f"PyTorch says: {error}")
    except TypeError:
        refuse(TypeError, "device", accepted, device)
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            why = "PyTorch finds no GPU: it may be built without CUDA, or none may be visible to this process."
            refuse(ValueError, "device", "None on a machine without CUDA", device, why)
        if (found.index or 0) >= count:
            refuse(ValueError, "device", f"one of the {count} GPUs that this process sees, from cuda:0 on", device)
    return None if found.type == "cpu" else found


def send(batch: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on a device. For a GPU, pinned memory and a stream of this thread are used."""
    own = isinstance(batch, LabelledBatch)
    fields = batch.fields() if own else batch
    if device.type == "cuda":
        sent = transfer_tensor_h2d(fields, device=device)
    else:
        import torch  # noqa: PLC0415 - an optional dependency.

        sent = map_tensors(lambda tensor: tensor.to(device), fields, torch.Tensor)
    return batch.replace(**sent) if own else sent


_PAIR = 2
# What a batch says of itself, and what it can do.
_SAID = {"epoch", "failures"}
_DONE = {name for name in dir(LabelledBatch) if callable(getattr(LabelledBatch, name))} - {"index"}


def to_columns(samples: Sequence[Any], medium: str, indices: Sequence[int]) -> dict[str, list[Any]]:
    """Return the fields of samples by their names, each as a list.

    Args:
        samples: Named tuples, mappings, dataclasses or plain objects with fields; pairs of a medium and a label; or the
            media alone.
        medium: The name of the field with the medium, such as ``"image"``.
        indices: The positions of the samples in their source, which replace their own field ``index``.

    Raises:
        TypeError: If a sample has no such field, or not the fields that the first one has.
        ValueError: If a batch has something else by the name of a field.
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
    columns.setdefault("label", [None] * len(samples))
    if "path" not in columns:
        columns["path"] = [_path_of(value) for value in columns[medium]]
    columns["index"] = list(indices)
    return columns


def _remedy(columns: Mapping[str, list[Any]], medium: str) -> str:
    """Return what to do about samples that have the medium by another name."""
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
    """Check that fields of a sample may be fields of a batch.

    Args:
        what: What the message calls the sample's fields.
        names: Their names.
        more: Further names that are not theirs to have.

    Raises:
        ValueError: If a batch has something else by that name.
    """
    taken = sorted((_SAID | _DONE | set(more)).intersection(names))
    if taken:
        raise ValueError(
            f"{what} cannot be fields of a batch: rename {' and '.join(map(repr, taken))}, which a batch uses itself"
        )


def gather(values: list[Any]) -> Any:
    """Return an array of values if they are numbers or arrays of one shape, None if all are None, else the list.

    Ints and bools become int64, other numbers float32. Ints that are too large stay in the list, as text does.
    """
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

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
    arrays = [to_array(value) for value in values]
    if all(array is not None and array.shape == arrays[0].shape and array.dtype.kind in "biufc" for array in arrays):
        return np.stack(arrays)
    return values


def shapes_of(arrays: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the dtype and the shape of a sample in arrays of several samples, by name."""
    return {name: (str(array.dtype), array.shape[1:]) for name, array in sorted(arrays.items())}


def to_array(value: Any) -> Any:
    """Return an array or a tensor in main memory as a numpy array; None if it is neither."""
    import numpy as np  # noqa: PLC0415

    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy"):
        return value.numpy()
    return None


def _to_record(sample: Any, medium: str) -> dict[str, Any]:
    if hasattr(type(sample), "_fields"):
        return dict(zip(sample._fields, sample, strict=True))
    if isinstance(sample, Mapping):
        return dict(sample)
    if is_dataclass(sample):
        return {field.name: getattr(sample, field.name) for field in fields(sample)}
    if isinstance(sample, tuple | list) and len(sample) == _PAIR:
        return {medium: sample[0], "label": sample[1]}
    if hasattr(sample, medium):
        return dict(vars(sample))
    return {medium: sample}


def _path_of(value: Any) -> str | None:
    return os.fsdecode(value) if isinstance(value, str | os.PathLike) else None
