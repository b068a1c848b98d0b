"""A Ray dataset as the source of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import positive, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RayDataSource"]


class RayDataSource:
    """An iterable over the rows, or batches, of a Ray dataset: a source for `PipelineBuilder.add_source`.

    Each iteration executes the dataset anew. Ray decides about the order, so a pipeline that is resumed reads it from
    the beginning, and goes on exactly only if the order is the same.

    Args:
        dataset: A ``ray.data.Dataset``, or what ``streaming_split`` or Ray Train's ``get_dataset_shard`` returns.
        batch_size: Rows of a batch. None yields single rows.

    Raises:
        TypeError, ValueError: If the dataset is none, or the batch size is no int of at least 1.

    Example:
        >>> from spdl.ray import RayDataSource
        >>> builder.add_source(RayDataSource(ds, batch_size=32))  # doctest: +SKIP
        >>> class Dataset:
        ...     def iter_rows(self):
        ...         return iter([{"id": 0}, {"id": 1}])
        ...     def iter_batches(self, **options): ...
        >>> list(RayDataSource(Dataset()))
        [{'id': 0}, {'id': 1}]
    """

    def __init__(self, dataset: Any, batch_size: int | None = None) -> None:
        if not (hasattr(dataset, "iter_rows") and hasattr(dataset, "iter_batches")):
            refuse(TypeError, "dataset", "a dataset of Ray", dataset)
        self._dataset = dataset
        self._batch_size = None if batch_size is None else positive("batch_size", batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return an iterator over rows as dicts, or over batches as dicts of numpy arrays."""
        if self._batch_size is None:
            rows: Any = self._dataset.iter_rows()
            return iter(rows)
        batches: Any = self._dataset.iter_batches(batch_size=self._batch_size, batch_format="numpy")
        return iter(batches)
