"""One file in which each line is a JSON object."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any

from spdl._check import show
from spdl._forks import RenewedLock
from spdl.io import FormatError
from spdl.io._common.one_version import OneVersion
from spdl.source._lines.line_index import find_lines
from spdl.source._records.contents import open_contents

if TYPE_CHECKING:
    from spdl.io._array.kept_arrays import CachePath
    from spdl.source._lines.line_index import Lines
    from spdl.source._records.contents import Contents
    from spdl.source._records.place import Place
    from spdl.store import Entry

__all__ = ["JsonShard"]


class JsonShard:
    """A JSON lines file whose records are read by their numbers. It is opened when it is first asked for something.

    Args:
        place: Where it is.
        cache: The folder that keeps where its lines begin.
    """

    def __init__(self, place: Place, cache: CachePath) -> None:
        self.place = place
        self._cache = cache
        self._opened: tuple[Contents, Lines] | None = None
        # Which version is read, if it is in a store: also by copies in other processes.
        self._entry: Entry | None = None
        self._lock = RenewedLock()

    def __len__(self) -> int:
        return len(self._open()[1].starts)

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return records.

        Raises:
            FormatError: If a line is no JSON object.
            OSError: If the file cannot be read.
        """
        contents, lines = self._open()
        starts = lines.starts[numbers].tolist()
        texts = contents.read(starts, lines.lengths[numbers].tolist())
        return [self._parse(*each) for each in zip(numbers, starts, texts, strict=True)]

    def _parse(self, number: int, start: int, text: memoryview) -> dict[str, Any]:
        # Files that were put together may have a mark of byte order at the beginning of each.
        content = bytes(text).removeprefix(codecs.BOM_UTF8)
        try:
            # Not of bytes: json would take some lines for UTF-16.
            record = json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{self._where(number, start)} is no JSON: {error}: {show(content)}") from error
        if not isinstance(record, dict):
            raise FormatError(
                f'{self._where(number, start)} is {show(record)}: a record is an object, such as {{"text": "..."}}'
            )
        return record

    def _where(self, number: int, start: int) -> str:
        return f"{self.place}, record {number}, at byte {start},"

    def _open(self) -> tuple[Contents, Lines]:
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    self._opened = self._find()
                    self._entry = self._opened[0].entry
        return self._opened

    def _find(self) -> tuple[Contents, Lines]:
        while True:
            contents = open_contents(self.place, self._entry)
            before = self.place.describe()
            if isinstance(contents, OneVersion):
                contents.check(before)
            lines = find_lines(self.place, contents, before, self._cache)
            # A file may have been replaced since it was mapped.
            if self.place.store is not None or self.place.describe() == before:
                return contents, lines

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}
