"""Targets move with their images: boxes, points, outlines and values, in every layout of a batch."""

from __future__ import annotations

import itertools
import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.media.image_loading import BROKEN, COUNT, make
from tests.dataloader.media.test_geometry import augments, moving, places

from spdl.dataloader import Boxes, ImageAugment, InstanceMasks, Jagged, Keypoints, Mask, Polygons, Values
from spdl.io import LoadError

if TYPE_CHECKING:
    from spdl.dataloader import Geometry, ImageBatch
    from spdl.source import ImageFolder

WIDTH, HEIGHT = 40, 30
PLAIN = ImageAugment(scale=None, flip=0)

SIDES = st.floats(-20, 60).map(lambda side: round(side, 2))
BOXES = st.lists(
    st.tuples(SIDES, SIDES, SIDES, SIDES).map(lambda s: (*np.minimum(s[:2], s[2:]), *np.maximum(s[:2], s[2:]))),
    max_size=4,
)


def moved(matrix: Any, points: Any) -> Any:
    points = np.asarray(points, np.float64)
    return points @ matrix[:, :2].T + matrix[:, 2]


def ends(geometry: Geometry, boxes: Any) -> tuple[Any, Any]:
    corners = np.stack([moved(geometry.matrix, boxes[:, [x, y]]) for x in (0, 2) for y in (1, 3)])
    return corners.min(0), corners.max(0)


def expected_boxes(boxes: Any, geometry: Geometry, min_visibility: float) -> tuple[Any, Any, Any, Any]:
    """Return what is left of boxes, whether each stays, and its area then and before, in float64."""
    boxes = np.array(boxes, np.float64).reshape(-1, 4)
    low, high = ends(geometry, boxes)
    area = (high - low).prod(1)
    own = np.clip(boxes, 0, 2 * (WIDTH, HEIGHT))
    low, high = ends(geometry, own)
    low, high = (np.clip(each, 0, geometry.size) for each in (low, high))
    left = (high - low).prod(1) * ((own[:, 2:] - own[:, :2]).prod(1) > 0)
    return np.hstack([low, high]), (left > 0) & (left >= min_visibility * area), left, area


@given(
    boxes=st.lists(BOXES, min_size=1, max_size=3),
    augment=augments(),
    formats=st.tuples(*[st.sampled_from(["xyxy", "xywh", "cxcywh"])] * 2),
    min_visibility=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_boxes_are_those_of_the_matrix_clipped(
    boxes: list[Any], augment: ImageAugment, formats: tuple[Any, Any], min_visibility: float, seed: int
) -> None:
    source = [
        {"image": places(WIDTH, HEIGHT), "boxes": written(each, formats[0]), "labels": list(range(len(each)))}
        for each in boxes
    ]
    targets = {
        "labels": Values(of="boxes"),
        "boxes": Boxes(formats[0], output=formats[1], min_visibility=min_visibility, normalized=False),
    }
    (batch,) = make(source, len(source), targets=targets, augment=augment, seed=seed)
    assert type(batch.boxes) is type(batch.labels) is list
    for own, found, labels, geometry in zip(boxes, batch.boxes, batch.labels, batch.geometry, strict=True):
        clipped, stays, left, area = expected_boxes(own, geometry, min_visibility)
        # What lies on the limit may fall on either side of it.
        certain = (abs(left - min_visibility * area) > 1e-6) & ((left > 1e-6) | (left == 0))
        assert set(np.flatnonzero(stays & certain)) <= set(labels) <= set(np.flatnonzero(stays | ~certain))
        assert found.dtype == np.float32
        assert found.shape == (len(labels), 4)
        np.testing.assert_allclose(found, np.reshape(written(clipped[labels], formats[1]), (-1, 4)), atol=1e-4)


def written(boxes: Any, form: str) -> list[Any]:
    boxes = np.array(boxes, np.float64).reshape(-1, 4)
    low, size = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
    found = {"xyxy": boxes, "xywh": np.hstack([low, size]), "cxcywh": np.hstack([low + size / 2, size])}[form]
    return list(found.tolist())


PARTS = st.floats(-1, 2).map(lambda part: round(part, 3))


@given(
    parts=st.lists(st.tuples(PARTS, PARTS, PARTS, PARTS), max_size=4),
    augment=moving(),
    form=st.sampled_from(["xyxy", "xywh", "cxcywh"]),
    seed=st.integers(0, 99),
)
def test_boxes_may_be_shares_of_the_sides(parts: list[Any], augment: ImageAugment, form: Any, seed: int) -> None:
    shares = np.array([(*np.minimum(p[:2], p[2:]), *np.maximum(p[:2], p[2:])) for p in parts]).reshape(-1, 4)
    source = {
        "image": places(WIDTH, HEIGHT),
        "shares": written(shares, form),
        "pixels": written(shares * (WIDTH, HEIGHT, WIDTH, HEIGHT), form),
    }
    targets = {
        "shares": Boxes(form, output="xyxy", normalized=True),
        "pixels": Boxes(form, output="xyxy", normalized=False),
    }
    (batch,) = make([source], targets=targets, augment=augment, seed=seed)
    # What is as thin as rounding is may be dropped from one of them.
    shares, pixels = [
        boxes[((boxes[:, 2:] - boxes[:, :2]) > 0.01).all(1)] for boxes in (batch.shares[0], batch.pixels[0])
    ]
    np.testing.assert_allclose(shares, pixels, atol=1e-3)


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
def test_boxes_that_are_shares_or_pixels_by_mistake_fail_their_sample(form: Any) -> None:
    shares = written([[0.1, 0.2, 0.5, 0.9], [0, 0, 1, 1]], form)
    pixels = written([[4, 6, 20, 27], [0, 0, 40, 30]], form)
    with pytest.raises(LoadError, match=r"`boxes`: all of its boxes lie in the first of 40 x 30 pixels: .*zed=True"):
        list(make([{"image": places(WIDTH, HEIGHT), "boxes": shares}], targets={"boxes": Boxes(form)}))
    message = r"`boxes`: box 0 must be shares of the image's width and height.* got the sides \[4.0, 6.0, 20.0, 27.0\]"
    with pytest.raises(LoadError, match=message):
        list(make([{"image": places(WIDTH, HEIGHT), "boxes": pixels}], targets={"boxes": Boxes(form, normalized=True)}))


@pytest.mark.parametrize(
    ("boxes", "size", "normalized"),
    [
        pytest.param([[0.1, 0.2, 0.5, 0.9]], (WIDTH, HEIGHT), False, id="pixels, as they are said to be"),
        pytest.param([[0.1, 0.2, 0.5, 0.9]], (8, 8), None, id="a tiny image"),
        pytest.param([[0.1, 0.2, 0.5, 0.9], [3, 4, 9, 9]], (WIDTH, HEIGHT), None, id="one of several boxes"),
        pytest.param([[0, 0, 0, 0], [0, 0, 1, 1]], (WIDTH, HEIGHT), None, id="boxes that stand for none"),
        pytest.param([[0, 0, 0.4, 0.7], [0, 0.5, 0.4, 1]], (WIDTH, HEIGHT), None, id="the rest of boxes at a corner"),
        pytest.param([[0.25, 0.5, 1.25, 1]], (WIDTH, HEIGHT), None, id="beyond the first pixel"),
        pytest.param([], (WIDTH, HEIGHT), None, id="no boxes"),
    ],
)
def test_boxes_in_pixels_are_not_taken_for_shares(boxes: Any, size: tuple[int, int], normalized: Any) -> None:
    source = [{"image": places(*size), "boxes": boxes}]
    (batch,) = make(source, size=size, targets={"boxes": Boxes(normalized=normalized)})
    expected = [each for each in boxes if each[0] < each[2]]
    np.testing.assert_allclose(batch.boxes[0], np.reshape(expected, (-1, 4)), rtol=1e-6)


PEOPLE = st.lists(st.lists(st.tuples(SIDES, SIDES, st.sampled_from([0, 1, 2])), min_size=3, max_size=3), max_size=3)


@given(people=PEOPLE, augment=augments(), seed=st.integers(0, 99))
def test_keypoints_are_those_of_the_matrix(people: list[Any], augment: ImageAugment, seed: int) -> None:
    plain = [point[:2] for person in people for point in person]
    targets = {"people": Keypoints(3, visibility=True, swap=[(2, 1)]), "points": Keypoints()}
    source = [{"image": places(WIDTH, HEIGHT), "people": people, "points": plain}]
    (batch,) = make(source, targets=targets, augment=augment, seed=seed)
    matrix = batch.geometry[0].matrix
    points = moved(matrix, np.reshape(plain, (-1, 2)))
    np.testing.assert_allclose(batch.points[0], points, atol=1e-4)
    found = batch.people[0]
    assert found.dtype == np.float32
    order = [0, 2, 1] if np.linalg.det(matrix[:, :2]) < 0 else [0, 1, 2]
    for person, person_found, places_of in zip(people, found, points.reshape(-1, 3, 2), strict=True):
        for number, name in enumerate(order):
            (x, y), visibility = places_of[name], person[name][2]
            if min(abs(x), abs(x - 16), abs(y), abs(y - 16)) < 2e-3:
                continue
            own_x, own_y = person[name][:2]
            inside = 0 < x < 16 and 0 < y < 16 and 0 <= own_x <= WIDTH and 0 <= own_y <= HEIGHT and visibility
            expected = (x, y, visibility) if inside else (0, 0, 0)
            np.testing.assert_allclose(person_found[number], expected, atol=1e-4)


def on_edges(width: float, height: float) -> list[tuple[float, float]]:
    """Return points on the edges of an image, its corners among them."""
    across, down = np.linspace(0, width, 6).tolist(), np.linspace(0, height, 6).tolist()
    return [point for x in across for y in down for point in [(x, y)] if x in {0, width} or y in {0, height}]


def loaded_points(points: Any, augment: ImageAugment, seed: int, **options: Any) -> tuple[Any, Geometry]:
    source = [{"image": places(WIDTH, HEIGHT), "points": [[x, y, 1] for x, y in points]}]
    targets = {"points": Keypoints(visibility=True)}
    (batch,) = make(source, targets=targets, augment=augment, seed=seed, **options)
    return batch.points[0], batch.geometry[0]


@given(augment=augments(), size=st.tuples(st.integers(1, 40), st.integers(1, 40)), seed=st.integers(0, 99))
def test_keypoints_on_an_edge_are_in_the_image(augment: ImageAugment, size: tuple[int, int], seed: int) -> None:
    _, geometry = loaded_points([], augment, seed, size=size)
    own = geometry.inverse().points(np.array(on_edges(*size)))
    own = own[((own >= 0) & (own <= (WIDTH, HEIGHT))).all(1)]
    found, _ = loaded_points(own, augment, seed, size=size)
    assert (found[:, 2] == 1).all()
    assert (found >= 0).all()
    assert (found[:, :2] < size).all()
    np.testing.assert_allclose(found[:, :2], geometry.points(own), atol=1e-3)


@given(
    points=st.lists(st.tuples(st.sampled_from([-0.01, 0, 0.5, 39.5, 40, 40.01]), st.sampled_from([0, 30, 30.01]))),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    mode=st.sampled_from(["pad", "crop", "stretch"]),
)
def test_keypoints_stay_when_the_image_is_mirrored(points: list[Any], size: tuple[int, int], mode: str) -> None:
    seen = [loaded_points(points, replace(PLAIN, flip=flip), 0, size=size, mode=mode)[0] for flip in (0, 1)]
    assert seen[0][:, 2].tolist() == seen[1][:, 2].tolist()
    if mode != "crop":
        expected = [0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points]
        assert seen[0][:, 2].tolist() == expected


def test_polygons_are_those_of_the_matrix_and_go_with_their_boxes() -> None:
    outlines: Any = [[[0, 0, 10, 0, 10, 10]], [np.array([[1, 2], [3, 4], [5, 9]]), [1, 1, 2, 1, 2, 2, 1, 2]], []]
    sample = {
        "image": places(WIDTH, HEIGHT),
        "boxes": [[0, 0, 10, 10], [50, 0, 60, 9], [1, 1, 9, 9]],
        "outlines": outlines,
    }
    targets = {"boxes": Boxes(), "outlines": Polygons(of="boxes")}
    (batch,) = make([sample], targets=targets, augment="train", seed=1)
    kept = expected_boxes(sample["boxes"], batch.geometry[0], 0)[1]
    (found,) = batch.outlines
    assert [len(each) for each in found] == [len(each) for each, stays in zip(outlines, kept, strict=True) if stays]
    everything = make([sample], targets={"boxes": Boxes(), "outlines": Polygons()}, augment="train", seed=1)
    (all_of_it,) = next(iter(everything)).outlines
    for own, polygons in zip(outlines, all_of_it, strict=True):
        for polygon, corners in zip(own, polygons, strict=True):
            assert corners.dtype == np.float32
            np.testing.assert_allclose(
                corners, moved(batch.geometry[0].matrix, np.reshape(polygon, (-1, 2))), atol=1e-4
            )


COUNTS = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@given(counts=COUNTS, output=st.sampled_from(["numpy", "torch"]))
def test_layouts_have_the_same_rows_whatever_is_in_a_batch(counts: list[int], output: str) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")

    kind: Any = np.ndarray if output == "numpy" else torch.Tensor
    source = [
        {"image": places(8, 8), "boxes": [[0, 0, 1 + row, 2] for row in range(count)], "scores": np.full(count, 0.5)}
        for count in counts
    ]
    targets = {"boxes": Boxes(), "scores": Values("float32", of="boxes", pad_value=-1)}
    options: dict[str, Any] = {"batch_size": 2, "targets": targets, "size": 8, "output": output}
    lists = list(make(source, **options))
    padded = list(make(source, **options, ragged="pad"))
    offsets = list(make(source, **options, ragged={"boxes": "offsets", "scores": "pad"}))
    for listed, filled, joined in zip(lists, padded, offsets, strict=True):
        for name, dtype in (("boxes", "float32"), ("scores", "float32")):
            rows = listed[name]
            assert type(rows) is list
            assert {(type(each), str(each.dtype).removeprefix("torch.")) for each in rows} == {(kind, dtype)}
            values, mask = filled[name], filled[f"{name}_mask"]
            assert type(values) is type(mask) is kind
            assert mask.shape == values.shape[:2] == (len(rows), max(map(len, rows)))
            for row, own, is_own in zip(values, rows, mask, strict=True):
                assert np.array_equal(row[is_own], own)
                assert (row[~is_own] == (-1 if name == "scores" else 0)).all()
        assert type(joined.boxes) is Jagged
        assert type(joined.boxes.values) is type(joined.boxes.offsets) is kind
        assert np.array_equal(joined.boxes.values, np.concatenate(listed.boxes))
        assert joined.boxes.lengths.tolist() == [len(each) for each in listed.boxes]


class Labelled:
    """The photos with a box each, which says which photo it is, and a point that is not readable in some."""

    def __init__(self, photos: ImageFolder, faults: tuple[int, ...] = ()) -> None:
        self.photos = photos
        self.faults = faults

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        boxes = [[4, 5, 20 + index, 30], [10, 10, 12 + index, 40]][: 1 + index % 2]
        points = [[1, 2, 3]] if index in self.faults else [[index, 7]]
        image = self.photos[index].image
        return {"image": image, "boxes": boxes, "ids": [index] * len(boxes), "points": points, "path": image}

    def fingerprint(self) -> str:
        return "labelled"


TARGETS = {"boxes": Boxes(), "ids": Values(of="boxes"), "points": Keypoints()}


def samples(batches: Any) -> list[tuple[int, bytes]]:
    """Return all that a batch has of each sample."""
    found = []
    for batch in batches:
        for place, index in enumerate(batch.index):
            assert set(batch.ids[place]) <= {index}
            fields = [batch[name][place] for name in ("image", "boxes", "ids", "points", "size")]
            content = [each.tobytes() for each in fields]
            found.append((int(index), pickle.dumps([content, batch.geometry[place].matrix.tobytes()])))
    return found


def test_instance_masks_take_bitmaps_and_none_reaches_into_a_border() -> None:
    bitmaps = np.zeros((2, HEIGHT, WIDTH), bool)
    bitmaps[0, 5:9, 3:] = bitmaps[1, :, :7] = True
    around = [[[-9, -9, WIDTH + 9, -9, WIDTH + 9, HEIGHT + 9, -9, HEIGHT + 9]]]
    source = [{"image": places(WIDTH, HEIGHT), "mask": each, "both": bitmaps, "around": around} for each in bitmaps * 1]
    targets = {"mask": Mask(ignore_index=0), "both": InstanceMasks(), "around": InstanceMasks()}
    for augment in ("eval", ImageAugment(scale=None, zoom=(0.5, 0.9), zoom_from="fit", quarter_turns=True)):
        (batch,) = make(source, 2, targets=targets, augment=augment, mode="pad", size=20)
        for number, both in enumerate(batch.both):
            np.testing.assert_array_equal(both[number], batch.mask[number])
        for geometry, (around_found,) in zip(batch.geometry, batch.around, strict=True):
            low, high = (np.rint(each[0]).astype(int) for each in ends(geometry, np.array([[0, 0, WIDTH, HEIGHT]])))
            expected = np.zeros((20, 20), np.uint8)
            expected[low[1] : high[1], low[0] : high[0]] = 1
            np.testing.assert_array_equal(around_found, expected)


def test_no_box_is_without_width_or_height() -> None:
    # Whole pixels: the boxes begin or end where some random crops do.
    boxes = [[x, y, x + 1, y + 1] for x in range(0, WIDTH, 3) for y in range(0, HEIGHT, 3)]
    source = [{"image": places(WIDTH, HEIGHT), "boxes": boxes}] * 60
    for batch in make(source, 20, targets={"boxes": Boxes()}, augment="train", size=224):
        for found in batch.boxes:
            assert ((found[:, 2:] - found[:, :2]) >= 1e-4).all()


def test_boxes_with_all_of_their_area_stay() -> None:
    boxes = [[0, 0, WIDTH, HEIGHT], *([x / 7, 1 / 3, x / 7 + 0.1, 2 / 3] for x in range(250))]
    source = [{"image": places(WIDTH, HEIGHT), "boxes": boxes}]
    for size in range(3, 40):
        (batch,) = make(source, targets={"boxes": Boxes(min_visibility=1.0)}, size=size, mode="stretch")
        assert len(batch.boxes[0]) == len(boxes)


def test_outlines_that_make_no_sense_say_which_target_takes_them() -> None:
    for target, value, message in (
        (Polygons(), np.ones((1, 8, 8), np.uint8), "array of two dimensions, as masks are: see InstanceMasks"),
        (
            Polygons(),
            [{"size": [8, 8], "counts": [64]}],
            "run-length encoding, which has no corners: see InstanceMasks",
        ),
        (Polygons(), [[1, 1, 5, 1, 5, 5]], "an object must have a list of polygons, got the numbers of one"),
        (InstanceMasks(), np.ones((1, 8, 7), np.uint8), r"as large as its image, \(8, 8\), got \(8, 7\)"),
        (InstanceMasks(), np.ones((1, 8, 8)), "a mask must have ints or bools, got float64"),
    ):
        source = [{"image": places(8, 8), "outlines": value}]
        with pytest.raises(LoadError, match=message):
            list(make(source, targets={"outlines": target}))


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_targets_stay_with_their_images_at_every_cut(broken: ImageFolder, photos: ImageFolder, on_error: str) -> None:
    options: dict[str, Any] = {"targets": TARGETS, "augment": "train", "shuffle": True, "seed": 2}
    faults = (0, 5)
    whole = dict(samples(make(Labelled(photos), COUNT, **options)))

    def loader() -> Any:
        return make(Labelled(broken, faults), 4, **options, on_error=on_error)

    expected = samples(loader())
    # What depends on the index alone is the same for a sample in its own place and in another's.
    assert all(whole[index] == content for index, content in expected)
    missing = set(range(COUNT)) - {index for index, _ in expected}
    assert missing >= {*BROKEN, *faults}
    assert len(expected) == (COUNT if on_error == "refill" else COUNT - len(BROKEN) - len(faults))
    for cut in range(1, 6):
        first = loader()
        received = samples(itertools.islice(iter(first), cut))
        rest = loader()
        rest.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert received + samples(rest) == expected


def test_targets_that_make_no_sense_fail_their_sample() -> None:
    image = places(8, 8)
    good = {"image": image, "boxes": [[0, 0, 4, 4]], "ids": [1], "points": [[1, 1]]}
    for changes, message in (
        ({"boxes": [[5, 0, 4, 4]]}, "If it is "),
        ({"boxes": [[0, 0, 4]]}, "`boxes`: its elements must be numbers of the shape"),
        ({"boxes": [[0, 0, 4, float("nan")]]}, "`boxes`: its numbers must be from -1,000,000,000 to"),
        ({"boxes": None}, "`boxes`: it must be a list"),
        ({"ids": [1, 2]}, "`ids`: it has 2 elements, and `boxes` has 1 boxes"),
        ({"ids": [0.5]}, "`ids`: it has numbers that int64 cannot hold"),
        ({"points": "none"}, "`points`: it must be a list"),
        ({"points": [[1], [1, 2]]}, "`points`: its elements must be numbers"),
    ):
        source = [good, {**good, **changes}, good]
        with pytest.raises(LoadError, match=message):
            list(make(source, targets=TARGETS))
        (batch,) = make(source, targets=TARGETS, on_error="skip")
        assert batch.index.tolist() == [0, 2]
        assert message in batch.failures[0].reason


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"targets": [Boxes()]}, TypeError, "`targets` must be a mapping"),
        ({"targets": {"boxes": "xyxy"}}, TypeError, r"`targets\['boxes'\]` must be one of"),
        ({"targets": {"ids": Values(of="boxes")}}, ValueError, r"`targets\['ids'\].of` must be the name of a field of"),
        ({"targets": {"image": Boxes()}}, ValueError, "rename 'image'"),
        ({"targets": {"size": Boxes()}}, ValueError, "rename 'size'"),
        ({"targets": TARGETS, "ragged": "rows"}, ValueError, "`ragged` must be 'list', 'pad' or 'offsets'"),
        ({"targets": TARGETS, "ragged": {"label": "pad"}}, ValueError, "`ragged` must be layouts of fields"),
        ({"targets": {"a": Polygons()}, "ragged": {"a": "pad"}}, ValueError, r"`ragged\['a'\]` must be 'list'"),
        ({"ragged": "pad"}, ValueError, "`ragged` must be left out without `targets`"),
        ({"targets": {"local": Boxes()}, "views": {"image": [PLAIN], "local": [PLAIN]}}, ValueError, "rename 'local'"),
        ({"targets": {"a": Boxes(), "b_a": Mask()}, "views": {"image": [PLAIN], "b": [PLAIN]}}, ValueError, "'b_a'"),
        ({"targets": {}, "augment": ImageAugment(cutmix=1, num_classes=2)}, ValueError, "`targets` must be left out"),
    ],
)
def test_wrong_targets_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make([places(8, 8)], **options)


@pytest.mark.parametrize(
    ("make_target", "message"),
    [
        (lambda: Boxes("yxyx"), "`format` must be 'xyxy', 'xywh' or 'cxcywh'"),  # type: ignore[arg-type]
        (lambda: Boxes(min_visibility=2), "`min_visibility` must be a number from 0 to 1"),
        (lambda: Keypoints(3, swap=[(0, 3)]), "`swap` must be pairs of numbers of points, from 0 to 2"),
        (lambda: Keypoints(3, swap=[(0, 1), (1, 2)]), "`swap` must be pairs"),
        (lambda: Keypoints(swap=[(0, 1)]), "`swap` must be empty without `count`"),
        (lambda: Values("uint8", pad_value=-1), "`pad_value` must be a number that uint8 can hold"),
        (lambda: Values("str"), "`dtype` must be a dtype of bools, ints or floats"),
    ],
)
def test_wrong_kinds_of_targets_are_refused(make_target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_target()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [1]}, r"`source\[0\].labels` must be a single value in a field that `targets` does not mention"),
        ({"labels": np.zeros(2)}, r"`source\[0\].labels` must be a single value"),
        ({"labels": [1]}, r"Say there what it is, such as 'labels': Boxes\(\), or Values\(\)"),
        ({"points": None, "boxes": ...}, r"`source\[0\]` must be a sample with the field 'boxes'"),
        (
            {"boxes": ...},
            r"got \('image', 'ids', 'points'\).* Make samples dicts or other records: {'image': ..., 'boxes'",
        ),
    ],
)
def test_fields_that_targets_does_not_mention_are_refused(changes: dict[str, Any], message: str) -> None:
    sample = {"image": places(8, 8), "boxes": [], "ids": [], "points": [], **changes}
    sample = {name: value for name, value in sample.items() if value is not ...}
    with pytest.raises(TypeError, match=message):
        list(make([sample], targets=TARGETS))


def test_batches_with_targets_can_be_moved_and_pickled() -> None:
    pytest.importorskip("torch", reason="needs PyTorch")
    source = [{"image": places(8, 8), "boxes": [[0, 0, 2, 2]], "tags": [1, 2]}]
    targets = {"boxes": Boxes(), "tags": Values()}
    (batch,) = make(source, targets=targets, output="torch", ragged={"tags": "offsets"})
    copied: ImageBatch = pickle.loads(pickle.dumps(batch.to("meta")))  # noqa: S301
    assert copied.boxes[0].device.type == copied.tags.values.device.type == "meta"
    assert copied.geometry[0].size == (16, 16)
