"""Labelled images in tar archives, by their index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import refuse
from spdl.io import TarMember, TarSample
from spdl.io._shared import KEY
from spdl.source import ImageSample, ShardFailure, TarShards
from spdl.source._shared import IMAGE_EXTENSIONS, Samples, fingerprint

if TYPE_CHECKING:
    from fractions import Fraction


Label: TypeAlias = str | Callable[[dict[str, Any]], Any] | None

_FOLDER = "folder"
_EXTENSIONS = tuple(each[1:] for each in IMAGE_EXTENSIONS)


class ImageShards(Samples[ImageSample]):
    """The images of tar archives, in any order, without unpacking them.

    Files with the same name up to the first dot are one sample, as in WebDataset: ``0001.jpg`` and ``0001.cls``. The
    archives are mapped into memory, and the positions of their files are found once and kept beside each archive as
    ``NAME.tar.index`` (`spdl.io.tar_index`); those of a store are read in ranges, as by `spdl.source.TarShards`. A
    sample without an image is an error. It is a sequence of `ImageSample` records whose image is a view.

    Args:
        shards: The archives in the order of their samples: paths, URLs or patterns such as
            ``train-{0000..0099}.tar``, which are written out as a shell does it. They must not be compressed.
        label: The origin of labels. The name of a part, such as ``"cls"``, is read as the text of a whole number.
            ``"folder"`` takes the folder of the image in the archive as its class, and numbers the classes in sorted
            order. A function gets the sample as `spdl.source.TarShards` gives it, a dict of the parts by name, as views
            of bytes, with its key as ``"__key__"``, and returns the label. None gives no labels.
        max_failures: How many archives may be damaged, cut short or missing: an int (a negative one sets no
            limit), or a `fractions.Fraction` of all of them, above 0 and at most 1. They are left out whole, logged by
            ``spdl.source``, and listed in `failures`. Classes of ``label="folder"`` then come from the others.

    Attributes:
        classes: The names of the classes for ``label="folder"``, else None.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there are no archives, they hold no sample, or a sample has no image; when a sample is looked up,
            if it has not the part of its label. The message names it.
        FormatError: If more archives than `max_failures` are compressed, damaged, truncated or missing.
        OSError: If one cannot be mapped.

    Example:
        >>> import io, tarfile, tempfile
        >>> from pathlib import Path
        >>> from spdl.dataloader import ImageShards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "photos.tar")
        ...     with tarfile.open(path, "w") as archive:
        ...         for name, content in (("1.ppm", b"P6 1 1 255 abc"), ("1.cls", b"7")):
        ...             member = tarfile.TarInfo(name)
        ...             member.size = len(content)
        ...             archive.addfile(member, io.BytesIO(content))
        ...     sample = ImageShards([path])[0]
        >>> bytes(sample.image), sample.label, Path(sample.path).name
        (b'P6 1 1 255 abc', 7, '1.ppm')
    """

    _called = "images"

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        label: Label = "cls",
        max_failures: int | Fraction = 0,
    ) -> None:
        if not (label is None or isinstance(label, str) or callable(label)):
            refuse(TypeError, "label", "the name of a part, 'folder', a function or None", label)
        self._label = label
        self._samples = TarShards(shards, max_failures=max_failures)
        folders = set()
        for position in range(len(self._samples)):
            archive, sample = self._samples.locate(position)
            image = _image_of(sample)
            if image is None:
                accepted = (
                    f"archives whose samples have an image ({', '.join(_EXTENSIONS)}); TarShards takes any, and a "
                    "loader's on_error leaves out what MappedRecords finds no image in"
                )
                refuse(ValueError, "shards", accepted, f"{archive}/{sample.key}")
            if label == _FOLDER:
                folders.add(_folder_of(sample.parts[image].name))
        self.classes: list[str] | None = sorted(folders) if label == _FOLDER else None
        self._numbers = {name: number for number, name in enumerate(self.classes or ())}

    @property
    def failures(self) -> list[ShardFailure]:
        """A new list of the archives that were left out."""
        return self._samples.failures

    def fingerprint(self) -> str:
        """Return a short text that says which images in which order these are, wherever the archives are."""

        def describe(index: int) -> str:
            archive, _, member = self._locate(index)
            return f"{os.path.basename(archive)}/{member.name} {member.size}"  # noqa: PTH119

        return fingerprint("ImageShards", len(self), describe)

    def __len__(self) -> int:
        return len(self._samples)

    def _sample(self, position: int) -> ImageSample:
        archive, image, member = self._locate(position)
        parts = self._samples[position]
        label = self._label_of(parts, member.name, f"{archive}/{parts[KEY]}")
        return ImageSample(parts[image], label, f"{archive}/{member.name}", position)

    def __repr__(self) -> str:
        return f"ImageShards of {self._samples!r}"

    def _locate(self, position: int) -> tuple[str, str, TarMember]:
        """Return the archive of a sample, and the part that is its image with its place."""
        archive, sample = self._samples.locate(position)
        image = _image_of(sample)
        assert image is not None
        return archive, image, sample.parts[image]

    def _label_of(self, parts: dict[str, Any], image: str, where: str) -> Any:
        label = self._label
        if label is None:
            return None
        if label == _FOLDER:
            return self._numbers[_folder_of(image)]
        if not isinstance(label, str):
            return label(parts)
        if label not in parts:
            names = ", ".join(repr(name) for name in parts if name != KEY)
            remedy = f"{where} has no such part. Pass label='folder' for the name of its folder, or None for no labels."
            refuse(ValueError, "label", f"a part that samples have, such as {names}", label, remedy)
        text = bytes(parts[label])
        try:
            return int(text)
        except ValueError:
            raise ValueError(
                f"The label of {where} in its part {label!r} is not a whole number: {text[:40]!r}."
            ) from None


def _image_of(sample: TarSample) -> str | None:
    return next((part for part in sample.parts if part.rpartition(".")[2] in _EXTENSIONS), None)


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0].rpartition("/")[2]
