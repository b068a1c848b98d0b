"""The folders of classes, and all files below a folder in torchvision's order."""

from __future__ import annotations

import os

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["find_classes", "list_files"]


def find_classes(root: str, *, hidden: bool) -> list[str]:
    """Return the sorted names of the folders in a folder.

    Raises:
        FileNotFoundError: If it does not exist, or has no folder.
        NotADirectoryError: If it is no folder.
    """
    try:
        with os.scandir(root) as entries:
            classes = sorted(entry.name for entry in entries if entry.is_dir() and (hidden or entry.name[0] != "."))
    except FileNotFoundError:
        raise FileNotFoundError(f"`root` must be a folder, but there is nothing at {root!r}.") from None
    except NotADirectoryError:
        raise NotADirectoryError(f"`root` must be a folder, but {root!r} is none.") from None
    if not classes:
        raise FileNotFoundError(
            f"{root!r} has no folder in it: there must be one for each class, such as {os.path.join(root, 'cats')!r}."  # noqa: PTH118
        )
    return classes


def list_files(folder: str, *, hidden: bool) -> list[str]:
    """Return the paths of all files below a folder, in the sorted order of the folders' paths and then of the names.

    A pipe, a socket or a device is no file. A link to nothing is listed, so that it is missed when it is read.

    Raises:
        ValueError: If a link leads back to a folder around it.
    """
    found: list[tuple[str, list[str]]] = []
    # The folders still to list, each with the identities of those around it.
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while waiting:
        path, around = waiting.pop()
        state = os.stat(path)  # noqa: PTH116 - millions of paths are listed.
        identity = state.st_dev, state.st_ino
        if identity in around:
            raise ValueError(f"{path!r} is a link to a folder around it, so the files in it have no end: remove it.")
        names: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                if not hidden and entry.name[0] == ".":
                    continue
                if entry.is_dir():
                    waiting.append((entry.path, around | {identity}))
                elif entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path)):  # noqa: PTH110
                    names.append(entry.name)
        found.append((path, sorted(names)))
    # Like torchvision, by the text of the path: "a-b" comes before "a/b".
    found.sort()
    return [f"{path}{os.sep}{name}" for path, names in found for name in names]
