"""A folder of arrays with a sub-folder for each class."""

from __future__ import annotations

from typing import ClassVar

from spdl.source._labelled.class_folder import ClassFolder
from spdl.source._labelled.sample import ArraySample

__all__ = ["ArrayFolder"]


class ArrayFolder(ClassFolder[ArraySample]):
    """The npy and npz files of a folder that has a sub-folder for each class: ``root/fox/1.npy``, ``root/owl/5.npz``.

    Classes, numbers and order follow the rules of `ImageFolder`, which describes the arguments. It is a sequence of
    `ArraySample` records, and a source of `spdl.dataloader.ArrayLoader`.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as arrays, in any case. None are .npy and .npz.
        is_valid_file: Instead of `extensions`, called with each file's path; it returns whether the file counts.
        allow_empty: Whether a class may have no array.
        hidden: Whether files and folders count whose names begin with a dot.
        class_to_idx: The numbers of the classes by the names of their folders. None numbers all folders.

    Raises:
        TypeError, ValueError, FileNotFoundError, NotADirectoryError: As `ImageFolder`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import ArrayFolder
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name in ("fox/1.npy", "owl/1.npz"):
        ...         Path(root, name).parent.mkdir()
        ...         Path(root, name).touch()
        ...     folder = ArrayFolder(root)
        >>> folder.classes, folder[1].label, Path(folder[1].file).name
        (['fox', 'owl'], 1, '1.npz')
    """

    default_extensions: ClassVar[tuple[str, ...]] = (".npy", ".npz")
    """The endings of names that count if no others are given."""
    media: ClassVar[str] = "files of arrays"
    """What the files are called."""

    def _make(self, path: str, label: int, index: int) -> ArraySample:
        return ArraySample(path, label, path, index)
