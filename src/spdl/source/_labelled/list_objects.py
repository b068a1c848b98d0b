"""The objects of a store by the folders of their classes."""

from __future__ import annotations

from typing import NamedTuple

from spdl._shown import shown
from spdl.source._records.place import listed_folder
from spdl.store import split_url

__all__ = ["ListedClasses", "list_objects"]


class ListedClasses(NamedTuple):
    """What is below a URL.

    Attributes:
        root: The URL, as those of the files begin.
        files: For each class, in sorted order, the URLs of its files, in the order of `list_files`.
    """

    root: str
    files: dict[str, list[str]]


def list_objects(root: str, *, hidden: bool) -> ListedClasses:
    """Return the classes below the URL of a store and their files. The store is listed once.

    Raises:
        FileNotFoundError: If there is nothing, or no folder.
        NotADirectoryError: If it is no folder.
        OSError: If the store cannot be listed.
    """
    base = split_url(root)[0]
    place = listed_folder(root)
    assert place.store is not None
    folder = f"{base}/{place.path}".rstrip("/")
    skip = len(place.path) + 1 if place.path else 0
    found: dict[str, list[tuple[str, str]]] = {}
    entry = None
    for entry in place.store.list(place.path):
        if len(entry.path) < skip:
            raise NotADirectoryError(f"`root` must be a folder, but {shown(root)!r} is none.")
        below = entry.path[skip:]
        name, slash, rest = below.partition("/")
        if not slash or (name.startswith(".") and not hidden):
            continue
        files = found.setdefault(name, [])
        # Some programs make empty objects to show folders.
        if not below.endswith("/") and (hidden or not _is_hidden(rest)):
            around, _, last = below.rpartition("/")
            files.append((around, last))
    if entry is None:
        raise FileNotFoundError(f"`root` must be a folder, but there is nothing at {shown(root)!r}.")
    if not found:
        raise FileNotFoundError(
            f"{shown(root)!r} has no folder in it: there must be one for each class, such as '{shown(root)}/cats'."
        )
    return ListedClasses(
        folder, {name: [f"{folder}/{around}/{last}" for around, last in sorted(found[name])] for name in sorted(found)}
    )


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
