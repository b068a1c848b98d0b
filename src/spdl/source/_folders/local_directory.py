"""The files of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spdl._check import check_path, check_str, refuse
from spdl.io._common.inputs import is_url, url_of
from spdl.source._samplers.shuffled import shuffled

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["LocalDirectory"]


class LocalDirectory:
    """The paths in a folder that match a pattern, both files and folders, listed once and in sorted order.

    If nothing matches, it is empty.

    Args:
        root: The folder, on this machine.
        pattern: A pattern of `pathlib.Path.glob`: ``"*.jpg"`` matches the folder's own files, ``"**/*.jpg"`` also those
            in all folders below.

    Raises:
        TypeError: If an argument has the wrong type.
        FileNotFoundError: If the folder does not exist.
        NotADirectoryError: If `root` is no folder.
        ValueError: If `pattern` is empty or absolute, or `root` is a URL.

    Example:
        >>> from spdl.source.local_directory import LocalDirectory
        >>> photos = LocalDirectory("photos", "**/*.jpg")  # doctest: +SKIP
        >>> photos.shuffle(seed=0)  # doctest: +SKIP
    """

    def __init__(self, root: str | os.PathLike[str], pattern: str) -> None:
        check_path("root", root)
        if is_url(root):
            remedy = "This class makes pathlib.Path objects, which no URL can be: use spdl.source.Files."
            refuse(ValueError, "root", "a folder of this machine", url_of(root), remedy)
        self.root = Path(root)
        self.pattern = check_str("pattern", pattern)
        if not self.root.exists():
            raise FileNotFoundError(f"`root` must be a folder, but there is nothing at {str(self.root)!r}.")
        if not self.root.is_dir():
            raise NotADirectoryError(f"`root` must be a folder, but {str(self.root)!r} is none.")
        try:
            self._sorted = sorted(self.root.glob(pattern))
        except (NotImplementedError, ValueError) as error:
            refuse(ValueError, "pattern", "a relative pattern such as '**/*.jpg'", pattern, f"Python says: {error}.")
        self._paths = self._sorted

    def shuffle(self, seed: int) -> None:
        """Put the paths into an order that depends only on the seed, not on their current order.

        Args:
            seed: Any int, for `random.Random`.

        Raises:
            TypeError: If `seed` is no int.
        """
        self._paths = shuffled(self._sorted, seed)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Path:
        return self._paths[index]

    def __repr__(self) -> str:
        return f"LocalDirectory({str(self.root)!r}, {self.pattern!r}): {len(self)} paths"
