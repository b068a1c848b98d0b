"""The records of files in which each line is a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_path, refuse
from spdl.source._lines.json_shard import JsonShard
from spdl.source._records.place import find_places
from spdl.source._records.sharded import ShardedRecords

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from spdl.store import Store

__all__ = ["JsonLines"]


class JsonLines(ShardedRecords[dict[str, Any], JsonShard]):
    """The records of JSON lines files (.jsonl): in any order, from this machine or a store.

    Each line is a JSON object, and a record is the dict of it. Lines that are blank are no records. Where the lines
    begin is found by reading each file once, in pieces, and is kept in a cache folder, by the size and the time of
    change of the file or the etag of the object: 16 bytes for each line. Files are mapped into memory.

    Args:
        files: The files in the order of their records: paths, URLs or patterns such as ``part-{000..127}.jsonl``.
            They must not be compressed.
        store: Where the files are, if neither on this machine nor where URLs say; paths are those of the store.
        cache: The folder that keeps where lines begin, which ranks and later runs share. None is a folder in the user's
            cache.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is no record.
        FormatError: If a file is compressed; when a record is read, if its line is no JSON object.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import JsonLines
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "captions.jsonl")
        ...     with path.open("w") as file:
        ...         print('{"image": "1.jpg", "text": "a cat"}', file=file)
        ...         print('{"image": "2.jpg", "text": "a dog"}', file=file)
        ...     records = JsonLines(path, cache=folder)
        ...     record = records[1]
        >>> len(records), record
        (2, {'image': '2.jpg', 'text': 'a dog'})
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: Store | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        if cache is not None:
            check_path("cache", cache)
        super().__init__([JsonShard(place, cache) for place in find_places("files", files, store)])
        if not len(self):
            refuse(ValueError, "files", "files with lines in them", files)
