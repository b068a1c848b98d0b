"""Annotations of objects in images: COCO's JSON and PASCAL VOC's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.images import make_jpeg

from spdl.dataloader import Boxes, ImageLoader, Keypoints, Values
from spdl.source import CocoDetection, VOCDetection, VOCSegmentation

if TYPE_CHECKING:
    from collections.abc import Callable

COCO: dict[str, Any] = {
    "images": [{"id": 9, "file_name": "b.jpg"}, {"id": 2, "file_name": "sub/a.jpg"}, {"id": 5, "file_name": "c.jpg"}],
    "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}, {"id": 18, "name": "dog"}],
    "annotations": [
        {"id": 11, "image_id": 2, "category_id": 18, "bbox": [1, 2, 3.5, 4], "area": 7.5, "iscrowd": 0,
         "segmentation": [[1, 2, 4, 2, 4, 6]], "keypoints": [1, 2, 2, 0, 0, 0]},
        {"id": 12, "image_id": 9, "category_id": 1, "bbox": [0, 0, 5, 6], "area": 30, "iscrowd": 1,
         "segmentation": {"size": [20, 20], "counts": [0, 400]}, "keypoints": []},
        {"id": 13, "image_id": 2, "category_id": 90, "bbox": [0, 1, 2, 3], "area": 6, "iscrowd": 0,
         "segmentation": [[0, 1, 2, 1, 2, 4]], "keypoints": [3, 4, 1, 5, 6, 2]},
    ],
}  # fmt: skip


def test_coco_has_the_objects_of_each_image(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(COCO), encoding="utf-8")
    photos = CocoDetection(path, tmp_path / "photos")
    assert photos.classes == ["person", "dog", "toothbrush"]
    assert photos.category_ids == [1, 18, 90]
    assert len(photos) == 3
    first = str(tmp_path / "photos" / "b.jpg")
    assert photos[0] == {"image": first, "path": first, "image_id": 9, "boxes": [], "labels": []}
    assert photos[1]["image"] == str(tmp_path / "photos" / "sub" / "a.jpg")
    assert photos[1]["boxes"] == [(1, 2, 4.5, 6), (0, 1, 2, 4)]
    assert photos[-2]["labels"] == photos[1:2][0]["labels"] == [1, 2]
    with pytest.raises(IndexError):
        photos[3]
    assert repr(photos).endswith("3 images, 2 objects of 3 classes")
    assert CocoDetection(COCO, "elsewhere").fingerprint() == photos.fingerprint()
    assert CocoDetection(COCO, "elsewhere", first_label=1).fingerprint() != photos.fingerprint()


def test_coco_has_the_fields_that_are_asked_for() -> None:
    names = ("boxes", "labels", "area", "iscrowd", "segmentation", "keypoints", "annotation_id")
    photos = CocoDetection(COCO, "s3://bucket/photos", fields=names, first_label=1, crowd=True)
    assert photos[0] == {
        "image": "s3://bucket/photos/b.jpg",
        "path": "s3://bucket/photos/b.jpg",
        "image_id": 9,
        "boxes": [(0, 0, 5, 6)],
        "labels": [1],
        "area": [30],
        "iscrowd": [1],
        "segmentation": [{"size": [20, 20], "counts": [0, 400]}],
        "keypoints": [[]],
        "annotation_id": [12],
    }
    assert photos[1]["keypoints"] == [[(1, 2, 2), (0, 0, 0)], [(3, 4, 1), (5, 6, 2)]]
    without = CocoDetection(COCO, "photos", fields=["labels"], empty=False)
    assert [sample["image_id"] for sample in without] == [2]
    assert set(without[0]) == {"image", "path", "image_id", "labels"}


def changed(part: str, number: int, **changes: Any) -> dict[str, Any]:
    records = [dict(each) for each in COCO[part]]
    records[number].update(changes)
    return {**COCO, part: records}


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({}, "must have a list 'images' of records, each with a number or text as `id`"),
        (
            {**COCO, "annotations": [{"image_id": 2}]},
            "must have a list 'annotations' of records, each with a number or text as `id`",
        ),
        (
            changed("images", 0, id=2),
            "Two records of 'images' in `annotations` have the `id` 2: each must have its own",
        ),
        (changed("images", 0, file_name="../b.jpg"), "The image 9 of `annotations` must have a `file_name` below"),
        (changed("images", 0, file_name="/b.jpg"), "must have a `file_name` below the folder"),
        (changed("annotations", 0, image_id=3), "The annotation 11 of `annotations` is of the image 3, which is not"),
        (changed("annotations", 0, category_id=3), "The annotation 11 .* must have the id of one of its categories"),
        (changed("annotations", 2, bbox=[1, 2, -3, 4]), "The annotation 13 .* must have the numbers left, top, width"),
        (
            changed("annotations", 2, bbox=None),
            "must have the numbers left, top, width and height, no size below 0, as its `bbox`",
        ),
        (changed("annotations", 2, iscrowd=[]), "must have 0 or 1 as its `iscrowd`, got"),
        (changed("annotations", 2, keypoints=[1, 2]), "must have a list of x, y and visibility for each point"),
        (changed("annotations", 2, segmentation=None), "must have polygons or a run-length encoding"),
        (changed("annotations", 2, area="large"), "must have a number as its `area`"),
        ({**COCO, "images": [], "annotations": []}, "`annotations` must have an image"),
    ],
)
def test_coco_names_what_is_wrong(annotations: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CocoDetection(annotations, "photos", fields=("boxes", "labels", "area", "segmentation", "keypoints"))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CocoDetection(3, "photos"), TypeError, "`annotations` must be a path"),  # type: ignore[arg-type]
        (lambda: CocoDetection(COCO, "photos", fields="boxes"), TypeError, "`fields` must be names among boxes"),
        (lambda: CocoDetection(COCO, "photos", fields=["bbox"]), ValueError, "`fields` must be names among boxes"),
        (lambda: CocoDetection(COCO, "photos", first_label=-1), ValueError, "`first_label` must be"),
        (lambda: CocoDetection("no such file", "photos"), FileNotFoundError, "no such file"),
    ],
)
def test_coco_refuses_wrong_arguments(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_coco_is_loaded_with_its_objects(tmp_path: Path) -> None:
    for number, image in enumerate(COCO["images"]):
        path = tmp_path / image["file_name"]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(make_jpeg(20, 20, seed=number))
    people = changed("annotations", 1, keypoints=[9, 9, 2, 0, 0, 0])
    photos = CocoDetection(people, tmp_path, fields=("boxes", "labels", "keypoints"), crowd=True)
    targets = {
        "boxes": Boxes(),
        "labels": Values(of="boxes"),
        "keypoints": Keypoints(2, visibility=True, of="boxes"),
    }
    (batch,) = ImageLoader(photos, 3, size=40, targets=targets, ragged="pad", output="numpy")
    assert batch.image_id.tolist() == [9, 2, 5]
    assert batch.boxes_mask.sum(1).tolist() == [1, 2, 0]
    np.testing.assert_array_equal(batch.boxes[1], [[2, 4, 9, 12], [0, 2, 4, 8]])
    np.testing.assert_array_equal(batch.keypoints[1, 1], [[6, 8, 1], [10, 12, 2]])
    assert batch.labels[0, 0] == 0


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def voc_object(name: str, box: tuple[Any, ...], difficult: int | str = 0) -> str:
    sides = "".join(f"<{side}>{at}</{side}>" for side, at in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>{sides}</bndbox></object>"


def test_voc_has_the_objects_of_each_image(tmp_path: Path) -> None:
    write(tmp_path, "ImageSets/Main/val.txt", "000007\n2008_000001\n")
    objects = voc_object("cat", (1, 1, 10, 20)) + voc_object("person", (3, 4, 5, 6.5), 1)
    write(tmp_path, "Annotations/000007.xml", f"<annotation><size/>{objects}</annotation>")
    write(tmp_path, "Annotations/2008_000001.xml", "<annotation></annotation>")
    photos = VOCDetection(tmp_path, "val")
    assert photos[0]["boxes"] == [(0, 0, 10, 20), (2, 3, 5, 6.5)]
    assert [photos.classes[label] for label in photos[0]["labels"]] == ["cat", "person"]
    assert photos[0]["path"] == photos[0]["image"] == str(tmp_path / "JPEGImages" / "000007.jpg")
    assert photos[-1]["boxes"] == photos[1:][0]["labels"] == []
    assert VOCDetection(tmp_path, "val", difficult=False, first_label=1)[0]["labels"] == [8]
    assert photos.fingerprint() == VOCDetection(tmp_path, "val").fingerprint()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotation>", "must be XML as VOC has it"),
        (
            f"<annotation>{voc_object('unicorn', (1, 1, 2, 2))}</annotation>",
            "must be of a class in `classes`, .*, got 'unicorn'",
        ),
        (f"<annotation>{voc_object('cat', (1, 1, 2, 'x'))}</annotation>", "must have four numbers as <bndbox>"),
        ("<annotation><object><name>cat</name></object></annotation>", "Object 0 of '.*1.xml' must have <bndbox>"),
        ("<annotation><object><bndbox/></object></annotation>", "must have <xmin>"),
    ],
)
def test_voc_names_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "ImageSets/Main/train.txt", "1")
    write(tmp_path, "Annotations/1.xml", text)
    with pytest.raises(ValueError, match=message):
        VOCDetection(tmp_path)[0]


@pytest.mark.parametrize("flag", ["", "0.0", "1.0", "true", "2", "-1"])
def test_voc_takes_0_and_1_as_the_flag_of_difficult_objects(tmp_path: Path, flag: str) -> None:
    write(tmp_path, "ImageSets/Main/train.txt", "1")
    box = (1, 1, 2, 2)
    objects = [voc_object("cat", box, " 1 "), voc_object("dog", box), voc_object("cow", box)]
    objects[2] = objects[2].replace("<difficult>0</difficult>", "")
    write(tmp_path, "Annotations/1.xml", f"<annotation>{''.join(objects)}</annotation>")
    photos = VOCDetection(tmp_path, classes=["cat", "dog", "cow"], difficult=False)
    assert photos[0]["labels"] == [1, 2]
    objects.append(voc_object("dog", box, flag))
    write(tmp_path, "Annotations/1.xml", f"<annotation>{''.join(objects)}</annotation>")
    with pytest.raises(ValueError, match=rf"Object 3 of '.*1.xml' must have 0 or 1 as <difficult>.* got '{flag}'"):
        photos[0]
    assert VOCDetection(tmp_path, classes=photos.classes)[0]["labels"] == [0, 1, 2, 1]


def test_voc_has_the_mask_of_each_image(tmp_path: Path) -> None:
    write(tmp_path, "ImageSets/Segmentation/train.txt", "2007_000032\n2007_000039  1\n")
    photos = VOCSegmentation(tmp_path)
    assert len(photos) == 2
    assert photos[1] == {
        "image": str(tmp_path / "JPEGImages" / "2007_000039.jpg"),
        "mask": str(tmp_path / "SegmentationClass" / "2007_000039.png"),
        "path": str(tmp_path / "JPEGImages" / "2007_000039.jpg"),
    }
    objects = VOCSegmentation(tmp_path, masks="SegmentationObject")
    assert Path(objects[0]["mask"]).parent.name == "SegmentationObject"
    write(tmp_path, "ImageSets/Segmentation/none.txt", "\n")
    with pytest.raises(ValueError, match="`image_set` must be a list with names"):
        VOCSegmentation(tmp_path, "none")
    write(tmp_path, "ImageSets/Segmentation/outside.txt", "../secret\n")
    with pytest.raises(ValueError, match="names of images without folders"):
        VOCSegmentation(tmp_path, "outside")
    for number in range(9):
        write(tmp_path, f"ImageSets/Segmentation/cat_{number}.txt", "2007_000039\n")
    with pytest.raises(FileNotFoundError, match=r"\('none', 'outside', 'train', 'cat_0', .* and 4 more\)"):
        VOCSegmentation(tmp_path, "test")
    with pytest.raises(FileNotFoundError, match=r"Main' \(there are none\), got 'val'"):
        VOCDetection(tmp_path, "val")
