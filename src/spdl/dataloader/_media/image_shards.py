"""Labelled images in tar archives, by their index."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_max_failures, refuse
from spdl.io import TarFile, TarIndex
from spdl.io._shared import KEY, split_name
from spdl.source import ImageSample, ShardFailure
from spdl.source._shared import (
    IMAGE_EXTENSIONS,
    REMEDY,
    Samples,
    Stores,
    TarParts,
    check_is_no_folder,
    expand_paths,
    fingerprint,
    is_broken,
    leave_out,
    missing,
    place_of,
)

if TYPE_CHECKING:
    from fractions import Fraction


Label: TypeAlias = str | Callable[[dict[str, Any]], Any] | None

_FOLDER = "folder"
_EXTENSIONS = tuple(each[1:] for each in IMAGE_EXTENSIONS)


class ImageShards(Samples[ImageSample]):
    """The images of tar archives, in any order, without unpacking them.

    Files with the same name up to the first dot are one sample, as in WebDataset: ``0001.jpg`` and ``0001.cls``. The
    archives are mapped into memory, and the positions of their files are found once and kept beside each archive as
    ``NAME.tar.index`` (`spdl.io.tar_index`). A sample without an image is an error. It is a sequence of `ImageSample`
    records whose image is a view of the mapped archive.

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
        limit = check_max_failures(max_failures)
        named = expand_paths("shards", shards)
        self._paths = [path for path, _ in named]
        check_is_no_folder("shards", self._paths[0], "*.tar")
        if not (label is None or isinstance(label, str) or callable(label)):
            refuse(TypeError, "label", "the name of a part, 'folder', a function or None", label)
        self._label = label
        try:
            opened = [_open(path, strict=limit == 0, alone=len(self._paths) == 1) for path in self._paths]
        except FileNotFoundError as error:
            stores: Stores = {}
            places = [place_of(path, None, stores)._replace(pattern=pattern) for path, pattern in named]
            found = missing("archives", places)
            if found is None:
                raise
            raise found from error
        pairs = list(zip(self._paths, opened, strict=True))
        failed = [(path, file) for path, file in pairs if not isinstance(file, TarFile)]
        self._left_out = leave_out("archives", failed, len(pairs), limit) if failed else []
        self._paths = [path for path, file in pairs if isinstance(file, TarFile)]
        self._files = [file for file in opened if isinstance(file, TarFile)]
        # For each sample the position of its first member, the start of the next sample, and the position of its image.
        self._firsts = [array("q") for _ in self._files]
        self._images = [array("q") for _ in self._files]
        for shard, file in enumerate(self._files):
            self._find_samples(shard, file.index)
        self._starts = list(accumulate((len(each) for each in self._images), initial=0))
        if not self._starts[-1]:
            refuse(ValueError, "shards", "archives with images in them", self._paths)
        self.classes: list[str] | None = None
        self._numbers: dict[str, int] = {}
        if label == _FOLDER:
            folders = {
                _folder_of(file.index[int(image)].name)
                for file, images in zip(self._files, self._images, strict=True)
                for image in images
            }
            self.classes = sorted(folders)
            self._numbers = {name: number for number, name in enumerate(self.classes)}

    @property
    def failures(self) -> list[ShardFailure]:
        """A new list of the archives that were left out."""
        return list(self._left_out)

    def fingerprint(self) -> str:
        """Return a short text that says which images in which order these are, wherever the archives are."""

        def describe(index: int) -> str:
            shard, _, _, image = self._locate(index)
            member = self._files[shard].index[image]
            return f"{os.path.basename(self._paths[shard])}/{member.name} {member.size}"  # noqa: PTH119

        return fingerprint("ImageShards", len(self), describe)

    def __len__(self) -> int:
        return self._starts[-1]

    def _sample(self, position: int) -> ImageSample:
        shard, first, end, image = self._locate(position)
        file = self._files[shard]
        path = f"{self._paths[shard]}/{file.index[image].name}"
        return ImageSample(file.read(image), self._label_of(shard, first, end, image), path, position)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._files = [TarFile(path) for path in self._paths]

    def __repr__(self) -> str:
        return f"ImageShards: {len(self)} images in {len(self._paths)} archives"

    def _find_samples(self, shard: int, index: TarIndex) -> None:
        firsts, images = self._firsts[shard], self._images[shard]
        last, image = None, -1
        for position, member in enumerate(index):
            key, part = split_name(member.name)
            if part is None:
                continue
            if key != last:
                if last is not None and image < 0:
                    self._refuse_sample(shard, last)
                firsts.append(position)
                last, image = key, -1
            if image < 0 and part.rpartition(".")[2] in _EXTENSIONS:
                image = position
                images.append(position)
        if last is not None and image < 0:
            self._refuse_sample(shard, last)
        firsts.append(len(index))

    def _refuse_sample(self, shard: int, key: str) -> None:
        accepted = (
            f"archives whose samples have an image ({', '.join(_EXTENSIONS)}); TarShards takes any, and a loader's "
            "on_error leaves out what MappedRecords finds no image in"
        )
        refuse(ValueError, "shards", accepted, f"{self._paths[shard]}/{key}")

    def _locate(self, position: int) -> tuple[int, int, int, int]:
        shard = bisect_right(self._starts, position) - 1
        local = position - self._starts[shard]
        firsts = self._firsts[shard]
        return shard, firsts[local], firsts[local + 1], self._images[shard][local]

    def _label_of(self, shard: int, first: int, end: int, image: int) -> Any:
        file, label = self._files[shard], self._label
        if label is None:
            return None
        if label == _FOLDER:
            return self._numbers[_folder_of(file.index[image].name)]
        key = split_name(file.index[image].name)[0]
        members = ((position, split_name(file.index[position].name)) for position in range(first, end))
        parts = {part: position for position, (own, part) in members if own == key and part is not None}
        if not isinstance(label, str):
            contents = {KEY: key, **{name: file.read(position) for name, position in parts.items()}}
            return label(TarParts(self._paths[shard], contents))
        where = f"{self._paths[shard]}/{key}"
        if label not in parts:
            refuse(
                ValueError, "label", f"a part that samples have, such as {', '.join(map(repr, parts))}", label, where
            )
        text = bytes(file.read(parts[label]))
        try:
            return int(text)
        except ValueError:
            raise ValueError(
                f"The label of {where} in its part {label!r} is not a whole number: {text[:40]!r}."
            ) from None


def _open(path: str, *, strict: bool, alone: bool) -> TarFile | Exception:
    """Return an archive, or why it cannot be read if it may be left out."""
    try:
        return TarFile(path)
    except Exception as error:
        if not is_broken(error):
            raise
        if strict:
            # Without the only archive there is no other.
            if not alone:
                error.add_note(REMEDY)
            raise
        return error


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0].rpartition("/")[2]
