"""Batches: pairs of data and labels, and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from spdl.dataloader._loader.failures import SampleFailure


class MovableBatch:
    """A batch whose tensors can be moved. It has methods `fields` and `replace`."""

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

    def _map_tensors(self, function: Callable[[Any], Any]) -> Self:
        import torch  # noqa: PLC0415 - an optional dependency.

        from spdl.io._shared import map_tensors  # noqa: PLC0415 - importing spdl.dataloader loads no spdl.io.

        batch: Any = self
        moved: Self = batch.replace(**map_tensors(function, batch.fields(), torch.Tensor))
        return moved


class LabelledBatch(MovableBatch, tuple[Any, Any]):  # noqa: SLOT001 - fields are attributes.
    """A batch: the fields of its samples, each as an array or a list.

    It is the pair of its data and its labels, so ``for images, labels in loader`` works, as do ``batch[0]`` and
    whatever else takes such a pair. All fields are attributes, and ``batch["label"]`` is ``batch.label``. The fields of
    one sample have the same place in all of them.

    Attributes:
        label: The labels as int64 or float32 (B,), arrays stacked, or a list of anything else; None without labels.
        path: The path or name of each sample, or None.
        index: The position of each sample in the source, int64 (B,).
        epoch: The number of the epoch.
        failures: The samples of this batch that failed and were left out, or replaced by others.

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
    path: list[str | None]
    index: Any
    epoch: int
    failures: tuple[SampleFailure, ...]

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


def _sketch(value: Any) -> str:
    if isinstance(value, Jagged):
        return f"{_sketch(value.values)} in {len(value.offsets) - 1} lists"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{getattr(value, 'dtype', '')}{list(shape)}"
    return f"<{len(value)} items>" if isinstance(value, list | tuple) else repr(value)


class ImageBatch(LabelledBatch):
    """A batch of images, as `ImageLoader` yields it: the pair ``image, label`` with more fields.

    Attributes:
        image: The images, (B, C, H, W) or (B, H, W, C), or with `views` (V, B, ...).
        size: With ``targets`` alone: the width and height of each original image, turned upright, int64 (B, 2).
        geometry: With ``targets`` alone: a list with the `Geometry` of each sample, or with `views` such a list for
            each view.

    Example:
        >>> import numpy as np
        >>> batch = ImageBatch({"image": np.zeros((2, 3, 8, 8)), "label": np.array([0, 1]), "path": ["a", "b"]})
        >>> images, labels = batch
        >>> images is batch.image, labels.tolist(), batch["path"]
        (True, [0, 1], ['a', 'b'])
    """

    medium: ClassVar[str] = "image"
    """The name of the field with the images."""
    image: Any
    size: Any
    geometry: Any


class ClipBatch(LabelledBatch):
    """A batch of clips of videos, as `ClipLoader` yields it: the pair ``clip, label`` with more fields.

    Attributes:
        clip: The pictures, (B, N, C, H, W) or (B, N, H, W, C). Places after a short clip hold zeros, unless a
            `transform` changes them.
        length: How many of the N pictures of each clip are its own, int64 (B,).
        mask: False for the zeros after a short clip, else True, bool (B, N).
        window: Where each clip begins and ends in its file in seconds, as float64 (B, 2).

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import ClipBatch
        >>> batch = ClipBatch({"clip": np.zeros((2, 8, 3, 4, 4)), "label": [0, 1], "length": np.array([8, 5])})
        >>> clips, labels = batch
        >>> clips is batch.clip, batch.length.tolist()
        (True, [8, 5])
    """

    medium: ClassVar[str] = "clip"
    """The name of the field with the clips."""
    clip: Any
    length: Any
    mask: Any
    window: Any


class SoundBatch(LabelledBatch):
    """A batch of sounds, as `AudioLoader` yields it: the pair ``sound, label`` with more fields.

    Attributes:
        sound: The samples, float32 (B, C, N). Places after a short sound hold zeros.
        length: How many of the N samples of each sound are its own, int64 (B,).
        mask: False for the zeros after a short sound, else True, bool (B, N).
        window: Where each sound begins and ends in its file in seconds, as float64 (B, 2).

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import SoundBatch
        >>> batch = SoundBatch({"sound": np.zeros((2, 1, 100)), "label": [0, 1], "length": np.array([100, 7])})
        >>> sounds, labels = batch
        >>> sounds is batch.sound, batch.length.tolist()
        (True, [100, 7])
    """

    medium: ClassVar[str] = "sound"
    """The name of the field with the sounds."""
    sound: Any
    length: Any
    mask: Any
    window: Any


class TextBatch(LabelledBatch):
    """A batch of rows of tokens, as `TextLoader` yields it: the pair ``tokens, labels`` with more fields.

    `spdl.io.RowWriter` says more about the fields up to `max_seqlen`.

    Attributes:
        tokens: The ids, int32 (B, L).
        labels: The id that each token should predict, int32 (B, L), or -100 for none; None with ``labels=None``.
        position_ids: The place of each token in its document, or its part of one, int32 (B, L).
        segment_ids: The number of each token's document in its row, from 1; 0 for padding. int32 (B, L).
        cu_seqlens: Where each sequence ends if all rows are put one after the other, from 0 to B * L, int32. The
            padding at the end of a row is a sequence, too.
        row_splits: The number of the first sequence of each row, and of all sequences, int32 (B + 1,).
        max_seqlen: The length of the longest sequence.
        index: The number of each row in the epoch, int64 (B,).
        documents: The segments of the rows, int64 (S, 4), with the row of each, the position of its document in the
            source, and its first token in the document and the one after its last.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import TextBatch
        >>> batch = TextBatch({"tokens": np.zeros((2, 8), np.int32), "labels": np.zeros((2, 8), np.int32), "epoch": 0})
        >>> tokens, labels = batch
        >>> tokens is batch.tokens, labels is batch["labels"]
        (True, True)
    """

    medium: ClassVar[str] = "tokens"
    """The name of the field that the batch unpacks as the first."""
    target: ClassVar[str] = "labels"
    """The name of the field that it unpacks as the second."""
    tokens: Any
    labels: Any
    position_ids: Any
    segment_ids: Any
    cu_seqlens: Any
    row_splits: Any
    max_seqlen: int
    index: Any
    documents: Any


class Jagged(NamedTuple):
    """Lists of different lengths: the layout of TorchRec's ``JaggedTensor`` and of Arrow.

    The elements of row ``i`` are ``values[offsets[i]:offsets[i + 1]]``.
    ``torch.nested.nested_tensor_from_jagged(values, offsets)`` and ``EmbeddingBag(values, offsets[:-1])`` take the two
    unchanged.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import Jagged
        >>> tags = Jagged(np.array([3, 1, 4]), np.array([0, 2, 2, 3]))
        >>> tags.lengths
        array([2, 0, 1])
    """

    values: Any
    """The elements of all rows one after the other, (total,)."""
    offsets: Any
    """The first element of each row, and the number of all elements, int64 (B + 1,)."""

    @property
    def lengths(self) -> Any:
        """How many elements each row has, int64 (B,)."""
        return self.offsets[1:] - self.offsets[:-1]


class TableBatch(MovableBatch, dict[str, Any]):
    """A batch of rows, as `TableLoader` yields it: a dict of columns by their names.

    Args:
        columns: The columns.
        index: The position of each row in the source, int64 (B,).
        masks: By the names of columns with nulls: False where a null was, bool (B,). With ``nulls="mask"`` alone.
        epoch: The number of the epoch.
        failures: The rows of this batch that failed and were left out, or replaced by others.

    Raises:
        TypeError, ValueError: If the columns are not what ``dict`` takes.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import TableBatch
        >>> batch = TableBatch({"age": np.array([31, 45])}, index=np.array([0, 1]))
        >>> batch["age"].mean(), batch.index.tolist()
        (np.float64(38.0), [0, 1])
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        index: Any = None,
        masks: Mapping[str, Any] | None = None,
        epoch: int = 0,
        failures: tuple[SampleFailure, ...] = (),
    ) -> None:
        super().__init__(columns)
        self.index = index
        self.masks = dict(masks or {})
        self.epoch = epoch
        self.failures = failures

    def fields(self) -> dict[str, Any]:
        """Return what it was made of by the names of the arguments, in a new dict."""
        return {"columns": dict(self), **self.__dict__}

    def replace(self, **changes: Any) -> Self:
        """Return a batch with some arguments changed, and the others unchanged.

        Args:
            changes: New values by the names of the arguments, such as ``columns``.

        Raises:
            TypeError: If there is no such argument.
        """
        return type(self)(**{**self.fields(), **changes})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_sketch(it)}' for name, it in self.items())})"
