"""Datasets of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from spdl._check import refuse
from spdl.source._record_source import Records

MEDIA = ("Image", "Audio", "Video")
_FILE = {"bytes", "path"}


def find_media(metadata: Mapping[bytes, bytes] | None) -> list[str]:
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return [name for name, feature in features.items() if feature.get("_type") in MEDIA]
    except (KeyError, ValueError, TypeError, AttributeError):
        # Other programs write what they like there.
        return []


def unwrap(records: Iterable[dict[str, Any]], names: Iterable[str]) -> None:
    """Put the encoded bytes of media in the place of files; the path if a file has no bytes."""
    listed = list(names)
    for record in records:
        for name in listed:
            value = record.get(name)
            if isinstance(value, dict) and value.keys() == _FILE:
                record[name] = value["path"] if value["bytes"] is None else value["bytes"]


class HuggingFaceDataset(Records[dict[str, Any]]):
    """The rows of a ``datasets.Dataset``, unchanged, in any order, with exact resume.

    A record is the dict of a row, in the format that the dataset has. Images, sounds and videos are not decoded: they
    are the encoded bytes, or the path of a file, which the loaders decode without the GIL. A dataset that has a
    transform (``set_transform``) is left to it.

    Args:
        dataset: What ``datasets.load_dataset`` returns for one split. For one that is streamed, take its Parquet files
            instead: `ParquetFiles`.

    Attributes:
        dataset: The dataset that rows are read of.
        classes: The names of the classes if there is a column ``label`` of classes, else None.

    Raises:
        TypeError: If this is no ``datasets.Dataset``, such as a dict of splits or an ``IterableDataset``.

    Example:
        >>> import datasets
        >>> from spdl.source import HuggingFaceDataset
        >>> rows = HuggingFaceDataset(datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}))
        >>> len(rows), rows[1]
        (2, {'text': 'b', 'label': 1})
    """

    def __init__(self, dataset: Any) -> None:
        kind = type(dataset)
        if not all(hasattr(kind, name) for name in ("features", "format", "cast_column", "__getitems__")):
            remedy = ""
            if hasattr(kind, "cast_column") and hasattr(kind, "take"):
                remedy = "A streamed one has no positions: read its Parquet files by ParquetFiles."
            elif isinstance(dataset, dict):
                remedy = f"Choose a split: {', '.join(map(repr, dataset))}."
            refuse(TypeError, "dataset", "a datasets.Dataset", dataset, remedy)
        features = dataset.features
        self._media = [name for name, feature in features.items() if type(feature).__name__ in MEDIA]
        if dataset.format["type"] == "custom":
            self._media = []
        for name in self._media:
            feature = features[name]
            dataset = dataset.cast_column(name, type(feature)(decode=False))
        self.dataset = dataset
        names = getattr(features.get("label"), "names", None)
        self.classes = None if names is None else list(names)

    @property
    def block_sizes(self) -> list[int]:
        """A new list with the number of rows, since all of them can be read in any order."""
        return [len(self)]

    def fingerprint(self) -> str:
        """Return a short text that says which rows in which order these are: the library's own fingerprint."""
        return f"HuggingFaceDataset:{len(self)}:{getattr(self.dataset, '_fingerprint', '')}"

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"HuggingFaceDataset: {len(self)} records with {', '.join(self.dataset.features)}"

    def _read(self, positions: list[int]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = self.dataset.__getitems__(positions) if positions else []
        unwrap(records, self._media)
        return records
