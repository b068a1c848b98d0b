"""Folders of this machine: their files, and ImageNet's photos as torchvision reads them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from spdl._check import check_choice, check_path, check_str, refuse
from spdl.io._shared import is_url, url_of
from spdl.source._samplers.shuffled import shuffled


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
        NotADirectoryError: If `root` is not a folder.
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
            raise NotADirectoryError(f"`root` must be a folder, but {str(self.root)!r} is not one.")
        try:
            self._sorted = sorted(self.root.glob(pattern))
        except (NotImplementedError, ValueError) as error:
            refuse(ValueError, "pattern", "a relative pattern such as '**/*.jpg'", pattern, f"Python says: {error}.")
        self._paths = self._sorted

    def shuffle(self, seed: int) -> None:
        """Put the paths into an order that depends only on the seed, any int, not on their current order.

        Raises:
            TypeError: If it is not an int.
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


_SPLITS = ("train", "val")
_SUFFIXES = frozenset({".jpeg", ".jpg", ".png"})
_WNID = re.compile(r"n\d{8}")


class ImageNet:
    """The paths of ImageNet-1k's photos with the indices of their classes.

    The folder has torchvision's layout: ``root/train/n01440764/n01440764_10026.JPEG`` and so on, and the same below
    ``root/val``. The constructor lists the folders and opens no photo. Not all 1,000 classes need to be there.

    Args:
        root: The folder that holds ``train`` and ``val``, on this machine.
        split: ``"train"`` or, by default, ``"val"``.

    Yields:
        ``(path, index)``: a `pathlib.Path` and the class from 0 to 999, in the order of the sorted paths until
        `shuffle` is called.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `root` is a URL, `split` is neither of the two, a folder's name is not a class of ImageNet-1k, or
            photos are not in folders of their classes.
        FileNotFoundError: If ``root/split`` does not exist or holds no photo.
        NotADirectoryError: If it is not a folder.

    Example:
        >>> from spdl.source.imagenet import ImageNet
        >>> for path, index in ImageNet("imagenet", "train"):  # doctest: +SKIP
        ...     break
    """

    def __init__(self, root: str | os.PathLike[str], split: str = "val") -> None:
        check_path("root", root)
        if is_url(root):
            remedy = "This class makes pathlib.Path objects, which no URL can be: use spdl.source.ImageFolder."
            refuse(ValueError, "root", "a folder of this machine", url_of(root), remedy)
        check_choice("split", check_str("split", split), _SPLITS)
        self.root = Path(root)
        self.split = split
        self._sorted = self._items = _list_photos(self.root / split)

    def shuffle(self, seed: int) -> None:
        """Put the photos into an order that depends only on the seed, any int, not on their current order.

        Raises:
            TypeError: If it is not an int.
        """
        self._items = shuffled(self._sorted, seed)

    def __iter__(self) -> Iterator[tuple[Path, int]]:
        return ((Path(path), index) for path, index in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, position: int) -> tuple[Path, int]:
        path, index = self._items[position]
        return Path(path), index

    def __repr__(self) -> str:
        return f"ImageNet({str(self.root)!r}, {self.split!r}): {len(self)} photos"


def get_mappings() -> dict[str, int]:
    """Return the index of each of ImageNet-1k's classes, by its WordNet ID.

    Returns:
        A new dict of 1,000 entries. The IDs, such as ``"n01440764"``, are in sorted order and numbered in that order.

    Example:
        >>> from spdl.source.imagenet import get_mappings
        >>> get_mappings()["n01443537"]
        1
    """
    return dict(_index_of_wnid())


def parse_wnid(s: str) -> str:
    """Return the first WordNet ID in a path or a name.

    Args:
        s: Any text, such as ``"train/n01440764/n01440764_10026.JPEG"``.

    Raises:
        TypeError: If `s` is not a str.
        ValueError: If it contains no WordNet ID: an ``n`` and eight digits.

    Example:
        >>> from spdl.source.imagenet import parse_wnid
        >>> parse_wnid("train/n01440764/n01440764_10026.JPEG")
        'n01440764'
    """
    found = _WNID.search(check_str("s", s))
    if found is None:
        refuse(ValueError, "s", "a text with a WordNet ID in it, such as 'n01440764'", s)
    return found[0]


@functools.cache
def _index_of_wnid() -> Mapping[str, int]:
    wnids = Path(__file__).with_name("imagenet_wnids.txt").read_text(encoding="ascii").split()
    return MappingProxyType({wnid: index for index, wnid in enumerate(wnids)})


def _list_photos(folder: Path) -> list[tuple[str, int]]:
    # As strings, the 1,281,167 paths take a quarter of the memory, and are listed and sorted ten times as quickly.
    indices = _index_of_wnid()
    photos: list[tuple[str, int]] = []
    astray = None
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The folder {str(folder)!r} does not exist: `root` must hold 'train' and 'val' as torchvision has them."
        ) from None
    for entry in entries:
        if not entry.is_dir():
            astray = astray or (entry.name if _is_photo(entry.name) else None)
            continue
        index = indices.get(entry.name)
        if index is None:
            raise ValueError(
                f"The folder {entry.path!r} is not a class of ImageNet-1k: names must be WordNet IDs such as "
                "'n01440764'."
            )
        names = sorted(name for name in os.listdir(entry.path) if _is_photo(name))  # noqa: PTH208 - see above.
        photos += [(f"{entry.path}{os.sep}{name}", index) for name in names]
    if astray:
        raise ValueError(
            f"{str(folder)!r} itself holds photos such as {astray!r}, so their classes are not known: move them into "
            "folders named by their classes' WordNet IDs, as torchvision's `ImageNet` or the script valprep.sh does."
        )
    if not photos:
        raise FileNotFoundError(f"No photos (.JPEG, .jpg, .png) are in folders of {str(folder)!r}.")
    return photos


def _is_photo(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122 - see above.
