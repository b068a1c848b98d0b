"""Images of PASCAL VOC's layout, with their objects or their masks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree as ET

from spdl._check import check_flag, check_path, check_str, escaped, refuse, show, shown_place
from spdl.io._shared import is_url
from spdl.source._labelled.lists import Samples, fingerprint

VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)


_SHOWN = 8


class _Voc(Samples[dict[str, Any]]):
    """The common part of both kinds: the names of a set's images."""

    _LISTS: str

    def __init__(self, root: str | os.PathLike[str], image_set: str) -> None:
        check_path("root", root)
        self.root = os.fsdecode(root)
        if is_url(self.root):
            refuse(ValueError, "root", "a folder of this machine", shown_place(self.root))
        self.image_set = check_str("image_set", image_set)
        path = Path(self.root, "ImageSets", self._LISTS, f"{image_set}.txt")
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except FileNotFoundError:
            _refuse_set(path.parent, image_set)
        except UnicodeDecodeError as error:
            raise ValueError(f"The list {str(path)!r} must be text in UTF-8: {error}.") from None
        # Lists for one class have a second column.
        self._names = [line.split()[0] for line in lines if line.strip()]
        for name in self._names:
            if "/" in name or "\0" in name or name in {".", ".."}:
                raise ValueError(f"The list {str(path)!r} must have names of images without folders, got {name!r}.")
        if not self._names:
            refuse(ValueError, "image_set", "a list with names of images", str(path))

    def fingerprint(self) -> str:
        """Return a short text that says which images these are, wherever the folder is."""
        return fingerprint(type(self).__name__, len(self), self._names.__getitem__, [self.image_set])

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown_place(self.root)!r}): {len(self)} images of {self.image_set}"

    def _image(self, position: int) -> str:
        return str(Path(self.root, "JPEGImages", f"{self._names[position]}.jpg"))


class VOCSegmentation(_Voc):
    """Images and masks of PASCAL VOC's layout, such as ``VOCdevkit/VOC2012``.

    It is a sequence of dicts with ``image``, ``mask`` and ``path``, the paths of an image and of its mask, and a source
    of `spdl.dataloader.ImageLoader` with ``targets={"mask": Mask()}``. A mask is a palette PNG whose indices are the
    classes: 0 is the background, and 255 is to be ignored.

    Args:
        root: The folder with ``ImageSets``, ``JPEGImages`` and ``SegmentationClass``.
        image_set: The name of a list in ``ImageSets/Segmentation``, such as ``"train"``.
        masks: The folder of the masks: ``"SegmentationClass"`` or ``"SegmentationObject"``, say.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the list has no names of images, or `root` is a URL.
        FileNotFoundError: If there is no such list.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import VOCSegmentation
        >>> with tempfile.TemporaryDirectory() as root:
        ...     folder = Path(root, "ImageSets", "Segmentation")
        ...     folder.mkdir(parents=True)
        ...     _ = Path(folder, "train.txt").write_text("2007_000032", encoding="utf-8")
        ...     photos = VOCSegmentation(root)
        >>> Path(photos[0]["mask"]).name
        '2007_000032.png'
    """

    _LISTS = "Segmentation"

    def __init__(
        self, root: str | os.PathLike[str], image_set: str = "train", *, masks: str = "SegmentationClass"
    ) -> None:
        super().__init__(root, image_set)
        self.masks = check_str("masks", masks)

    def _sample(self, position: int) -> dict[str, Any]:
        path = self._image(position)
        return {"image": path, "mask": str(Path(self.root, self.masks, f"{self._names[position]}.png")), "path": path}


class VOCDetection(_Voc):
    """Images and their objects of PASCAL VOC's layout, such as ``VOCdevkit/VOC2012``.

    It is a sequence of dicts, and a source of `spdl.dataloader.ImageLoader` with ``targets``. A sample has ``image``
    and ``path``, the path of the image, and two lists with an element for every object: ``boxes``, the left, top, right
    and bottom in pixels from the image's edges, and ``labels``. VOC counts pixels from 1, and its boxes include the
    last ones; here a box around a whole image is (0, 0, width, height). The file of a sample's objects is read when it
    is looked up.

    Args:
        root: The folder with ``ImageSets``, ``JPEGImages`` and ``Annotations``.
        image_set: The name of a list in ``ImageSets/Main``, such as ``"train"``.
        classes: The names of the classes in the order of their numbers. None are VOC's 20.
        first_label: The number of the first class.
        difficult: Whether objects count that are marked as difficult. If not, ``<difficult>`` of each object must be 0
            or 1; without one, it is 0.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the list has no names of images; when a sample is looked up, if its annotations make no sense.
        FileNotFoundError: If there is no such list.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import VOCDetection
        >>> box = "<bndbox><xmin>11</xmin><ymin>21</ymin><xmax>40</xmax><ymax>60</ymax></bndbox>"
        >>> with tempfile.TemporaryDirectory() as root:
        ...     for name, text in (
        ...         ("ImageSets/Main/train.txt", "000005"),
        ...         ("Annotations/000005.xml", f"<annotation><object><name>cat</name>{box}</object></annotation>"),
        ...     ):
        ...         Path(root, name).parent.mkdir(parents=True)
        ...         _ = Path(root, name).write_text(text, encoding="utf-8")
        ...     photo = VOCDetection(root)[0]
        >>> photo["boxes"], photo["labels"]
        ([(10.0, 20.0, 40.0, 60.0)], [7])
    """

    _LISTS = "Main"

    def __init__(
        self,
        root: str | os.PathLike[str],
        image_set: str = "train",
        *,
        classes: Iterable[str] | None = None,
        first_label: int = 0,
        difficult: bool = True,
    ) -> None:
        super().__init__(root, image_set)
        self.classes = list(VOC_CLASSES if classes is None else classes)
        if isinstance(classes, str) or len(set(self.classes)) != len(self.classes):
            refuse(ValueError, "classes", "an iterable of names, all of them different", classes)
        self._labels = {name: label for label, name in enumerate(self.classes, first_label)}
        self._difficult = check_flag("difficult", difficult)

    def _sample(self, position: int) -> dict[str, Any]:
        path = Path(self.root, "Annotations", f"{self._names[position]}.xml")
        try:
            root = ET.fromstring(path.read_bytes())  # noqa: S314 - expat bounds entities.
        except (ET.ParseError, ValueError, LookupError) as error:
            raise ValueError(f"{str(path)!r} must be XML as VOC has it: {error}.") from None
        if root.tag != "annotation":
            raise ValueError(f"{str(path)!r} must be an <annotation>, as VOC has it, got <{escaped(root.tag)}>.")
        boxes, labels = [], []
        for number, each in enumerate(root.findall("object")):
            where = f"Object {number} of {str(path)!r}"
            if self._difficult or not _is_difficult(each, where):
                boxes.append(_box(each, where))
                labels.append(self._label(_text(each, "name", where), where))
        image = self._image(position)
        return {"image": image, "boxes": boxes, "labels": labels, "path": image}

    def _label(self, name: str, where: str) -> int:
        if name not in self._labels:
            raise ValueError(f"{where} must be of a class in `classes`, {show(self.classes)}, got {name!r}.")
        return self._labels[name]


def _refuse_set(folder: Path, image_set: str) -> NoReturn:
    # Those of single classes, such as cat_train, are many.
    names = sorted((path.stem for path in folder.glob("*.txt")), key=lambda name: ("_" in name, name))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    found = f"{', '.join(map(repr, names[:_SHOWN]))}{more}" if names else "there are none"
    refuse(FileNotFoundError, "image_set", f"the name of a list in {str(folder)!r} ({found})", image_set)


def _text(element: ET.Element, name: str, where: str, default: str | None = None) -> str:
    text = element.findtext(name, default)
    if text is None:
        raise ValueError(f"{where} must have <{name}>.")
    return text.strip()


def _is_difficult(element: ET.Element, where: str) -> bool:
    text = _text(element, "difficult", where, "0")
    if text not in {"0", "1"}:
        raise ValueError(
            f"{where} must have 0 or 1 as <difficult>, or leave it out, got {text!r}: correct the file, or pass "
            "difficult=True, which takes all objects."
        )
    return text == "1"


def _box(element: ET.Element, where: str) -> tuple[float, float, float, float]:
    box = element.find("bndbox")
    if box is None:
        raise ValueError(f"{where} must have <bndbox>.")
    texts = [_text(box, name, where) for name in ("xmin", "ymin", "xmax", "ymax")]
    try:
        left, top, right, bottom = map(float, texts)
    except ValueError:
        raise ValueError(f"{where} must have four numbers as <bndbox>, got {texts}.") from None
    return left - 1, top - 1, right, bottom
