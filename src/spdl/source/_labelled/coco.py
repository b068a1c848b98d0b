"""Images with objects in them, as annotations in COCO's JSON describe them."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from spdl._check import check_flag, check_int, check_path, escaped, refuse, show, shown_place
from spdl.io._shared import is_url
from spdl.source._labelled.lists import Samples, fingerprint

Annotations: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]

_FIELDS = ("boxes", "labels", "area", "iscrowd", "segmentation", "keypoints", "annotation_id")

_KEYPOINT = 3
_SIDES = 4


class CocoDetection(Samples[dict[str, Any]]):
    """Images and their objects from annotations in COCO's JSON, without pycocotools.

    It is a sequence of dicts, and a source of `spdl.dataloader.ImageLoader` with ``targets``. A sample has ``image``
    and ``path``, the path of the file; ``image_id``, COCO's number of the image; and the chosen fields, each a list
    with an element for every object:

    * ``boxes``: left, top, right and bottom in pixels: COCO's ``bbox`` as "xyxy";
    * ``labels``: the number of the class, counted from `first_label` in the order of COCO's category ids;
    * ``area``, ``iscrowd``: as they are;
    * ``segmentation``: polygons or a run-length encoding;
    * ``keypoints``: a list of (x, y, visibility) for each object;
    * ``annotation_id``: COCO's number of the annotation.

    The images are in the order of the JSON. The constructor reads the JSON and opens no image.

    Args:
        annotations: The path of the JSON, or what ``json.load`` returns for it.
        root: The folder of the images, or its URL; names in the JSON are below it.
        fields: The fields that samples have.
        first_label: The number of the first class; 1 leaves 0 to the background, as torchvision's detectors do.
        crowd: Whether regions of crowds (``iscrowd``) count as objects.
        empty: Whether to keep images without objects.

    Attributes:
        classes: The names of the categories, in the order of their ids.
        category_ids: COCO's ids of the categories: the one of the label ``n`` is ``category_ids[n - first_label]``.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is not as described, or the JSON is not COCO's; the message names what is wrong in
            it. If nothing is left.
        FileNotFoundError: If there is no such JSON.

    Example:
        >>> from spdl.source import CocoDetection
        >>> annotations = {
        ...     "images": [{"id": 7, "file_name": "a.jpg"}],
        ...     "categories": [{"id": 3, "name": "cat"}, {"id": 18, "name": "dog"}],
        ...     "annotations": [{"id": 1, "image_id": 7, "category_id": 18, "bbox": [10, 20, 30, 40]}],
        ... }
        >>> photos = CocoDetection(annotations, "photos")
        >>> photos[0]["boxes"], photos[0]["labels"], photos.classes
        ([(10.0, 20.0, 40.0, 60.0)], [1], ['cat', 'dog'])
    """

    def __init__(
        self,
        annotations: Annotations,
        root: str | os.PathLike[str],
        *,
        fields: Iterable[str] = ("boxes", "labels"),
        first_label: int = 0,
        crowd: bool = False,
        empty: bool = True,
    ) -> None:
        check_path("root", root)
        self.root = os.fsdecode(root)
        if is_url(self.root) and "?" in self.root:
            refuse(ValueError, "root", "a folder's URL without a query, since names follow it", shown_place(self.root))
        self.fields = _check_fields(fields)
        check_int("first_label", first_label, least=0)
        crowd, empty = check_flag("crowd", crowd), check_flag("empty", empty)
        where, content = _load(annotations)
        images, objects, categories = (_records(content, name, where) for name in _PARTS)
        # Files of other programs have texts as ids as well.
        categories.sort(key=lambda category: (isinstance(category["id"], str), category["id"]))
        self.classes = [str(category.get("name", category["id"])) for category in categories]
        self.category_ids = [category["id"] for category in categories]
        labels = {number: label for label, number in enumerate(self.category_ids, first_label)}
        of_image: dict[int | str, list[Any]] = {image["id"]: [] for image in images}
        for each in objects:
            number: Any = each.get("image_id")
            found = of_image.get(number) if _is_id(number) else None
            if found is None:
                raise ValueError(
                    f"The annotation {each['id']} of {where} is of the image {show(each.get('image_id'))}, which is "
                    "not among its images."
                )
            if each.get("iscrowd", 0) not in (0, 1):
                raise _fault(each, where, "0 or 1", "iscrowd")
            if crowd or not each.get("iscrowd", 0):
                found.append(each)
        kept = [image for image in images if empty or of_image[image["id"]]]
        if not kept:
            raise ValueError(f"{where} must have an image{'' if empty else ' with an object'}, and has none.")
        self._names = [_name(image, where) for image in kept]
        self._ids = [image["id"] for image in kept]
        chosen = [each for image in kept for each in of_image[image["id"]]]
        self._starts = array("q", accumulate((len(of_image[image["id"]]) for image in kept), initial=0))
        # Numbers of all objects in arrays: data sets have millions.
        self._columns = {name: _COLUMNS[name](chosen, labels, where) for name in self.fields}

    def fingerprint(self) -> str:
        """Return a short text that says which images with which objects these are, wherever the folder is."""

        def describe(index: int) -> str:
            sample = self[index]
            return f"{self._names[index]} {[sample[name] for name in self.fields]}"

        return fingerprint("CocoDetection", len(self), describe, self.classes)

    def __len__(self) -> int:
        return len(self._names)

    def _sample(self, position: int) -> dict[str, Any]:
        path = (
            f"{self.root}/{self._names[position]}" if is_url(self.root) else str(Path(self.root, self._names[position]))
        )
        sample: dict[str, Any] = {"image": path, "path": path, "image_id": self._ids[position]}
        first, end = self._starts[position], self._starts[position + 1]
        for name, column in self._columns.items():
            if name == "boxes":
                sides = column[_SIDES * first : _SIDES * end].tolist()
                sample[name] = [tuple(sides[at : at + _SIDES]) for at in range(0, len(sides), _SIDES)]
            else:
                sample[name] = column[first:end].tolist() if isinstance(column, array) else column[first:end]
        return sample

    def __repr__(self) -> str:
        where = shown_place(self.root)
        return (
            f"CocoDetection({where!r}): {len(self)} images, {self._starts[-1]} objects of {len(self.classes)} classes"
        )


_PARTS = ("images", "annotations", "categories")


def _check_fields(fields: Any) -> tuple[str, ...]:
    accepted = f"names among {', '.join(_FIELDS)}"
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        refuse(TypeError, "fields", accepted, fields)
    names = tuple(fields)
    if not set(names) <= set(_FIELDS):
        refuse(ValueError, "fields", accepted, names)
    return names


def _load(annotations: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(annotations, Mapping):
        return "`annotations`", annotations
    check_path("annotations", annotations)
    where = os.fsdecode(annotations)
    if is_url(where):
        remedy = "Pass what json.load returns for it."
        refuse(ValueError, "annotations", "a path or the content of the JSON", shown_place(where), remedy)
    try:
        content = json.loads(Path(where).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where!r} must be JSON as COCO has it: {escaped(str(error))}") from None
    if not isinstance(content, dict):
        refuse(ValueError, "annotations", "a JSON object as COCO has it", where)
    return repr(where), content


def _records(content: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    records = content.get(name)
    if not isinstance(records, list) or not all(isinstance(each, dict) and _is_id(each.get("id")) for each in records):
        raise ValueError(
            f"{where} must have a list {name!r} of records, each with a number or text as `id`, as COCO's JSON has."
        )
    seen: set[int | str] = set()
    for each in records:
        if each["id"] in seen:
            same = show(each["id"])
            raise ValueError(f"Two records of {name!r} in {where} have the `id` {same}: each must have its own.")
        seen.add(each["id"])
    return list(records)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _name(image: dict[str, Any], where: str) -> str:
    name = image.get("file_name")
    if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(
            f"The image {image['id']} of {where} must have a `file_name` below the folder of images, got {show(name)}."
        )
    return name


def _fault(each: dict[str, Any], where: str, accepted: str, name: str) -> ValueError:
    return ValueError(
        f"The annotation {each['id']} of {where} must have {accepted} as its `{name}`, got {show(each.get(name))}."
    )


def _number(each: dict[str, Any], where: str, name: str) -> float:
    value = each.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(each, where, "a number", name)
    return value


def _boxes(objects: list[dict[str, Any]], labels: dict[Any, int], where: str) -> array[float]:  # noqa: ARG001
    boxes = array("d")
    for each in objects:
        box = each.get("bbox")
        if (
            not isinstance(box, list | tuple)
            or len(box) != _SIDES
            or not all(isinstance(side, int | float) and not isinstance(side, bool) for side in box)
            or not (box[2] >= 0 and box[3] >= 0)
        ):
            raise _fault(each, where, "the numbers left, top, width and height, no size below 0,", "bbox")
        left, top, width, height = box
        boxes.extend((left, top, left + width, top + height))
    return boxes


def _labels(objects: list[dict[str, Any]], labels: dict[Any, int], where: str) -> array[int]:
    found = array("q")
    for each in objects:
        number = each.get("category_id")
        label = labels.get(number) if _is_id(number) else None
        if label is None:
            raise _fault(each, where, "the id of one of its categories", "category_id")
        found.append(label)
    return found


def _segmentations(objects: list[dict[str, Any]], labels: dict[Any, int], where: str) -> list[Any]:  # noqa: ARG001
    for each in objects:
        if not isinstance(each.get("segmentation"), list | dict):
            raise _fault(each, where, "polygons or a run-length encoding", "segmentation")
    return [each["segmentation"] for each in objects]


def _keypoints(objects: list[dict[str, Any]], labels: dict[Any, int], where: str) -> list[Any]:  # noqa: ARG001
    found = []
    for each in objects:
        flat = each.get("keypoints")
        if not isinstance(flat, list) or len(flat) % _KEYPOINT:
            raise _fault(each, where, "a list of x, y and visibility for each point", "keypoints")
        found.append([tuple(flat[at : at + _KEYPOINT]) for at in range(0, len(flat), _KEYPOINT)])
    return found


_COLUMNS: dict[str, Any] = {
    "boxes": _boxes,
    "labels": _labels,
    "area": lambda objects, _, where: array("d", [_number(each, where, "area") for each in objects]),
    "iscrowd": lambda objects, _, __: array("q", [int(each.get("iscrowd", 0)) for each in objects]),
    "segmentation": _segmentations,
    "keypoints": _keypoints,
    "annotation_id": lambda objects, _, __: [each["id"] for each in objects],
}
