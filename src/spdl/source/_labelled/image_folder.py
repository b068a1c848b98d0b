"""A folder of images with a sub-folder for each class, as torchvision lays it out."""

from __future__ import annotations

from typing import ClassVar

from spdl.source._labelled.class_folder import ClassFolder
from spdl.source._labelled.sample import ImageSample

__all__ = ["IMAGE_EXTENSIONS", "ImageFolder"]

IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""The endings of file names that torchvision's `ImageFolder` takes for images."""


class ImageFolder(ClassFolder[ImageSample]):
    """The images of a folder that has a sub-folder for each class: ``root/cat/1.jpg``, ``root/dog/2021/5.png``.

    Classes, their numbers and the order of the images are those of torchvision's ``ImageFolder``: the folders in `root`
    are the classes, numbered in the sorted order of their names. A class has all images below its folder, in the sorted
    order of the folders' paths and then of the names. Links are followed. The constructor lists the folders and opens
    no image.

    It is a sequence of `ImageSample` records. It can be a source of `spdl.dataloader.ImageLoader` or of a pipeline.

    Args:
        root: The folder with the classes, or its URL in a store that can be listed, such as ``s3://bucket/train``.
        extensions: The endings of names that count as images, with their dots, in any case. None are torchvision's:
            .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff and .webp.
        is_valid_file: Instead of `extensions`, called with each file's path; it returns whether the file counts.
        allow_empty: Whether a class may have no image. By default that is an error, because it is usually a mistake.
        hidden: Whether files and folders count whose names begin with a dot, as they do in torchvision. False leaves
            out ``.ipynb_checkpoints``, which would be a class, and ``._1.jpg``.
        class_to_idx: The numbers of the classes by the names of their folders. Folders that it does not name are left
            out. None numbers all folders.

    Attributes:
        root: The folder.
        classes: The names of the classes, in sorted order.
        class_to_idx: The number of each class by its name.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `extensions` and `is_valid_file` are both given, or a link leads back to a folder around it.
        FileNotFoundError: If there is no such folder, it has no sub-folder, or a class has no image.
        NotADirectoryError: If `root` is no folder.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import ImageFolder
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name in ("cats/1.jpg", "dogs/1.jpg", "dogs/2.jpg"):
        ...         Path(root, name).parent.mkdir(exist_ok=True)
        ...         Path(root, name).touch()
        ...     folder = ImageFolder(root)
        >>> folder.classes, len(folder), folder[2].label, Path(folder[2].path).name
        (['cats', 'dogs'], 3, 1, '2.jpg')
    """

    default_extensions: ClassVar[tuple[str, ...]] = IMAGE_EXTENSIONS
    """The endings of names that count if no others are given."""
    media: ClassVar[str] = "images"
    """What the files are called."""

    def _make(self, path: str, label: int, index: int) -> ImageSample:
        return ImageSample(path, label, path, index)
