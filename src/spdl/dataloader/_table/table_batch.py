"""Batches of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spdl.dataloader._loader.labelled_batches import MovableBatch

if TYPE_CHECKING:
    from spdl.dataloader._loader.failures import SampleFailure


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


def _sketch(value: Any) -> str:
    if isinstance(value, Jagged):
        return f"{_sketch(value.values)} in {len(value.offsets) - 1} lists"
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else repr(value)
