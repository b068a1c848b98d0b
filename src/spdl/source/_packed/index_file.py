"""The index files of folders of shards: JSON of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_path, show
from spdl.io import FormatError
from spdl.source._records.place import find_folder

if TYPE_CHECKING:
    import os

    from spdl.source._records.place import Place
    from spdl.store import Store

__all__ = ["IndexFile"]

_NAME = "index.json"
# Samples are found by numbers of 32 bits.
_LARGEST = (1 << 32) - 1


class IndexFile:
    """The index of a folder, whose parts are checked when they are taken.

    Args:
        folder: The folder, a path or URL, or a folder of the store.
        store: Where it is, or None.

    Raises:
        TypeError: If an argument has the wrong type.
        FormatError: If the index is no JSON object.
        OSError: If it cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str], store: Store | None) -> None:
        check_path("folder", folder)
        root = find_folder("folder", folder, store)
        path = root.path.rstrip("/")
        self.place = root._replace(path=f"{path}/{_NAME}" if path or not root.path else f"/{_NAME}")
        if store is not None and not path:
            self.place = root._replace(path=_NAME)
        self.content: Any = self.place.read_json()
        self.take(self.content, "index", dict)

    def take(self, value: Any, what: str, *kinds: type) -> Any:
        """Return a value of the index if it is of one of some types."""
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise self.refuse(f"its {what} is {show(value)}, not of the type {names}")
        return value

    def count(self, value: Any, what: str) -> int:
        """Return a number of samples or bytes of the index, which the table of a shard could say, too."""
        number: int = self.take(value, what, int)
        if not 0 <= number <= _LARGEST:
            raise self.refuse(f"its {what} is {show(number)}, and no shard has more than {_LARGEST} or fewer than none")
        return number

    def file(self, name: Any, what: str) -> Place:
        """Return the place of a file that the index names, which is below the folder."""
        return self.place.below(self.take(name, what, str), {})

    def refuse(self, why: str) -> FormatError:
        """Return the error that says why the index cannot be used."""
        return FormatError(f"{self.place}: {why}")
