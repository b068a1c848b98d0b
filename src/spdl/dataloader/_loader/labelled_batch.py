"""The base of batches that are pairs of data and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from spdl.dataloader._loader.failures import SampleFailure


class LabelledBatch(tuple[Any, Any]):  # noqa: SLOT001 - fields are attributes.
    """A batch: the fields of its samples, each as an array or a list.

    It is the pair of its data and its labels, so ``for images, labels in loader`` works, as do ``batch[0]`` and
    whatever else takes such a pair. All fields are attributes, and ``batch["label"]`` is ``batch.label``. The fields of
    one sample have the same place in all of them.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import ImageBatch
        >>> batch = ImageBatch({"image": np.zeros((2, 3, 8, 8)), "label": np.array([0, 1]), "path": ["a", "b"]})
        >>> images, labels = batch
        >>> batch["label"] is batch.label is labels, batch.replace(image=images / 2).path
        (True, ['a', 'b'])
    """

    medium: ClassVar[str] = "data"
    """The name of the field with the data, which the batch unpacks as the first."""
    target: ClassVar[str] = "label"
    """The name of the field that it unpacks as the second."""
    label: Any
    """The labels as int64 or float32 (B,), arrays stacked, or a list of anything else; None without labels."""
    path: list[str | None]
    """The path or name of each sample, or None."""
    index: Any
    """The position of each sample in the source, int64 (B,)."""
    epoch: int
    """The number of the epoch."""
    failures: tuple[SampleFailure, ...]
    """The samples of this batch that failed and were left out, or replaced by others."""

    def __new__(cls, fields: Mapping[str, Any]) -> Self:
        """Make a batch of fields by their names."""
        batch = super().__new__(cls, (fields[cls.medium], fields.get(cls.target)))
        batch.__dict__.update(fields)
        return batch

    def fields(self) -> dict[str, Any]:
        """Return all fields by their names, in a new dict."""
        return dict(self.__dict__)

    def replace(self, **changes: Any) -> Self:
        """Return a batch with some fields changed or added, and the others unchanged. It never raises."""
        return type(self)({**self.__dict__, **changes})

    def to(self, device: Any, *, non_blocking: bool = False) -> Self:
        """Return the batch with its tensors on a device.

        Args:
            device: The device, as `torch.Tensor.to` takes it.
            non_blocking: Whether the call may return before copies have finished.

        Raises:
            RuntimeError: Those of PyTorch, if there is no such device.
        """
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return the batch with its tensors in pinned memory, as `torch.Tensor.pin_memory` copies them."""
        return self._map_tensors(lambda tensor: tensor.pin_memory())

    def __getitem__(self, key: Any) -> Any:
        """Return a field by its name, or by a number or a slice what the pair has there."""
        if isinstance(key, str):
            try:
                return self.__dict__[key]
            except KeyError:
                raise KeyError(f"{key!r} is not a field of this batch, which has {', '.join(self.__dict__)}") from None
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is not a field of this batch, which has {', '.join(self.__dict__)}")

    def __reduce__(self) -> Any:
        return type(self), (self.fields(),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_sketch(it)}' for name, it in self.__dict__.items())})"

    def _map_tensors(self, function: Any) -> Self:
        import torch  # noqa: PLC0415 - an optional dependency.

        from spdl.io._shared import map_tensors  # noqa: PLC0415 - importing spdl.dataloader loads no spdl.io.

        return type(self)(map_tensors(function, self.fields(), torch.Tensor))


def _sketch(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{getattr(value, 'dtype', '')}{list(shape)}"
    return f"<{len(value)} items>" if isinstance(value, list | tuple) else repr(value)
