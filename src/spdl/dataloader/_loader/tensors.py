"""The output of loaders: tensors or arrays, and their device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._check import refuse
from spdl.dataloader._loader.batches import LabelledBatch, TableBatch
from spdl.io import transfer_tensor_h2d
from spdl.io._shared import map_tensors

if TYPE_CHECKING:
    import torch

OutputKind: TypeAlias = Literal["torch", "numpy"]


def check_device(device: Any, output: str) -> torch.device | None:
    """Return the device as PyTorch's, or None for main memory."""
    if device is None:
        return None
    if output != "torch":
        refuse(ValueError, "device", f"None with `output={output!r}`, since only tensors can be moved", device)
    torch = import_torch()
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
    own = isinstance(batch, LabelledBatch | TableBatch)
    fields = batch.fields() if own else batch
    if device.type == "cuda":
        sent = transfer_tensor_h2d(fields, device=device)
    else:
        import torch  # noqa: PLC0415 - an optional dependency.

        sent = map_tensors(lambda tensor: tensor.to(device), fields, torch.Tensor)
    return batch.replace(**sent) if own else sent


def import_torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - an optional dependency.
    except ImportError as error:
        raise ImportError(
            "Batches of tensors need PyTorch, which is not installed: `pip install 'spdl-turbo[torch]'`, "
            'or pass output="numpy"'
        ) from error
    return torch


def fits_tensors(dtype: Any) -> bool:
    return dtype.kind == "b" or (dtype.kind in "iufc" and dtype.itemsize <= (16 if dtype.kind == "c" else 8))


def to_torch(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with tensors in place of arrays. Those of texts, times and records become lists of their rows."""
    import numpy as np  # noqa: PLC0415

    torch = import_torch()
    return {
        name: it if not isinstance(it, np.ndarray) else torch.from_numpy(it) if fits_tensors(it.dtype) else list(it)
        for name, it in fields.items()
    }


def all_to_torch(value: Any) -> Any:
    """Return a value with tensors in place of the arrays in its lists, tuples, mappings and dataclasses.

    Arrays that no tensor holds stay.
    """
    import numpy as np  # noqa: PLC0415

    torch = import_torch()
    return map_tensors(lambda it: torch.from_numpy(it) if fits_tensors(it.dtype) else it, value, np.ndarray)
