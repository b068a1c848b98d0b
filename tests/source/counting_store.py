"""A store that notes what is read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.store import LocalStore

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from typing_extensions import Buffer

    from spdl.store import Entry


class CountingStore:
    """A folder that another machine might have: every request is noted, and answered from the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[tuple[str, int]] = []
        self._store = LocalStore(root)

    @property
    def bytes_read(self) -> int:
        return sum(size for _, size in self.requests)

    def size(self, path: str) -> int:
        self.requests.append((path, 0))
        return self._store.size(path)

    def list(self, prefix: str) -> Iterator[Entry]:
        self.requests.append((prefix, 0))
        return self._store.list(prefix)

    def get(self, path: str) -> Buffer:
        content = self._store.get(path)
        self.requests.append((path, len(memoryview(content))))
        return content

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        self.requests.append((path, sum(lengths)))
        return self._store.get_ranges(path, starts, lengths)

    def __repr__(self) -> str:
        return f"CountingStore({str(self.root)!r})"
