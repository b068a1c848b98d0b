"""The columns of images and sounds that Hugging Face's datasets have, whose values are a file and its path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MEDIA", "find_media", "unwrap"]

MEDIA = ("Image", "Audio", "Video")
_FILE = {"bytes", "path"}


def find_media(metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """Return the names of such columns by the metadata of a Parquet file's schema."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return [name for name, feature in features.items() if feature.get("_type") in MEDIA]
    except (KeyError, ValueError, TypeError, AttributeError):
        # Other programs write what they like there.
        return []


def unwrap(records: Iterable[dict[str, Any]], names: Iterable[str]) -> None:
    """Put the encoded bytes of media in the place of files; the path where a file has no bytes."""
    listed = list(names)
    for record in records:
        for name in listed:
            value = record.get(name)
            if isinstance(value, dict) and value.keys() == _FILE:
                record[name] = value["path"] if value["bytes"] is None else value["bytes"]
