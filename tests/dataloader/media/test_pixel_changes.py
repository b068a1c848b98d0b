"""Changes of pixels are torchvision's for the parameters that were drawn, and are drawn as its documentation says."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataloader.media.image_loading import MEAN, STD, make
from tests.dataloader.media.torchvision_steps import KERNEL, SIZE, by_torchvision, load_vectors, make_picture
from tests.io.inside import instruction_sets, using_instruction_set

from spdl.dataloader import ImageAugment, RandAugment, TrivialAugment
from spdl.io import ImageOptions

EVERY: dict[str, Any] = {
    "grayscale": 0.5,
    "blur": 0.5,
    "solarize": 0.3,
    "posterize": 0.3,
    "equalize": 0.2,
    "autocontrast": 0.2,
    "sharpness": 0.5,
    "brightness": 0.4,
    "hue": 0.1,
    "jitter": 0.8,
}

OPS = [
    "identity",
    *("shear_x", "shear_y", "translate_x", "translate_y", "rotate"),
    *("brightness", "saturation", "contrast", "sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize"),
]


def ppm(picture: Any) -> bytes:
    height, width = picture.shape[:2]
    return b"P6 %d %d 255 " % (width, height) + bytes(picture.tobytes())


def still(**fields: Any) -> ImageAugment:
    return ImageAugment(scale=None, flip=0, **fields)


def change(picture: Any, augment: ImageAugment, count: int = 1, **options: Any) -> Any:
    """Return the image, changed in as many ways, as bytes."""
    height, width = picture.shape[:2]
    options = {"size": (width, height), "dtype": "uint8", "layout": "NHWC", **options}
    (batch,) = make([(ppm(picture), 0)] * count, count, augment=augment, **options)
    return batch.image


def tolerance(name: str) -> int:
    """Return how many levels torchvision may be off: it cuts fractions off, and of these it does so twice."""
    return 2 if name in ("blur", "saturation", "contrast") else 1


def assert_near(found: Any, expected: Any, name: str) -> None:
    far = np.abs(found.astype(int) - expected).max(axis=-1)
    assert far.max() <= tolerance(name), (name, far.max())


def alone(name: str, value: float) -> ImageAugment | None:
    """Return a record that takes one step for sure; None if only a policy takes it."""
    if name in ("brightness", "saturation", "contrast"):
        return still(**{name: (value, value)})
    fields: dict[str, Any] = {
        "hue": {"hue": (value, value)},
        "sharpness": {"sharpness": 1, "sharpness_factor": value},
        "posterize": {"posterize": 1, "posterize_bits": int(value)},
        "solarize": {"solarize": 1, "solarize_threshold": value},
        "autocontrast": {"autocontrast": 1},
        "equalize": {"equalize": 1},
        "grayscale": {"grayscale": 1},
        "blur": {"blur": 1, "blur_sigma": (value, value), "blur_kernel": KERNEL},
    }
    return still(**fields[name]) if name in fields else None


def test_image_augment_gives_what_torchvision_gave() -> None:
    tried = set()
    for name in instruction_sets():
        with using_instruction_set(name):
            for (step, value), expected in load_vectors().items():
                if (augment := alone(step, value)) is not None:
                    assert_near(change(make_picture(), augment)[0], expected, step)
                    tried.add(step)
    assert len(tried) == 11


def test_rand_augment_gives_what_torchvision_gave() -> None:
    augment, count = still(policy=RandAugment(num_ops=1)), 300
    vectors = {(name, round(value, 6)): pixels for (name, value), pixels in load_vectors().items()}
    tried = set()
    for index, found in enumerate(change(make_picture(), augment, count, seed=3)):
        steps = augment.steps(index, seed=3, epoch=0, size=SIZE)
        assert len(steps) <= 1
        for name, value in steps or [("identity", 0.0)]:
            assert_near(found, vectors[name, round(value, 6)], name)
            tried.add(name)
    assert tried == set(OPS)


def test_trivial_augment_has_the_published_table() -> None:
    augment = still(policy=TrivialAugment())
    drawn: dict[str, list[float]] = {name: [] for name in OPS}
    total = 4000
    for index in range(total):
        for name, value in augment.steps(index, seed=1, epoch=0, size=(224, 160)) or [("identity", 0)]:
            drawn[name].append(round(value, 6))
    share = total / len(OPS)
    assert all(abs(len(values) - share) < 5 * share**0.5 for values in drawn.values())
    signed = {
        "shear_x": np.linspace(0, 0.99, 31),
        "shear_y": np.linspace(0, 0.99, 31),
        "translate_x": np.linspace(0, 32, 31).astype(int),
        "translate_y": np.linspace(0, 32, 31).astype(int),
        "rotate": np.linspace(0, 135, 31),
    }
    table = {name: {round(float(sign * it), 6) for it in them for sign in (1, -1)} for name, them in signed.items()}
    for name in ("brightness", "saturation", "contrast", "sharpness"):
        table[name] = {round(float(1 + sign * it), 6) for it in np.linspace(0, 0.99, 31) for sign in (1, -1)}
    table["posterize"] = set(np.round(8 - np.arange(31) / 5))
    table["solarize"] = {round(float(it), 6) for it in 255 * np.linspace(1, 0, 31)}
    for name, values in drawn.items():
        assert set(values) <= table.get(name, {0}), name
        assert len(set(values)) > 0.8 * len(table.get(name, {0})), name


@pytest.mark.parametrize("magnitude", [0, 9, 30])
def test_rand_augment_has_the_published_table(magnitude: int) -> None:
    augment = still(policy=RandAugment(num_ops=3, magnitude=magnitude))
    width, height = 224, 160
    largest = {
        "shear_x": 0.3,
        "shear_y": 0.3,
        "translate_x": 150 / 331 * width,
        "translate_y": 150 / 331 * height,
        "rotate": 30,
    }
    for index in range(300):
        for name, value in augment.steps(index, seed=2, epoch=4, size=(width, height)):
            share = magnitude / 30
            if name in largest:
                expected = largest[name] * share
                assert abs(value) == pytest.approx(int(expected) if "translate" in name else expected)
            elif name in ("brightness", "saturation", "contrast", "sharpness"):
                assert abs(value - 1) == pytest.approx(0.9 * share)
            else:
                table = {"posterize": round(8 - 4 * share), "solarize": 255 * (1 - share)}
                assert value == pytest.approx(table.get(name, 0))


def test_steps_have_their_probabilities_and_nothing_in_common() -> None:
    augment = still(**EVERY)
    total = 4000
    names = [{name for name, _ in augment.steps(index, seed=0, epoch=0, size=(64, 64))} for index in range(total)]
    for name, probability in {**EVERY, "hue": 0.8, "brightness": 0.8}.items():
        if name != "jitter":
            assert abs(sum(name in each for each in names) / total - probability) < 0.035, name
    both = sum({"grayscale", "blur"} <= each for each in names) / total
    assert abs(both - 0.25) < 0.035
    sigmas = [dict(still(blur=1).steps(index, seed=0, epoch=0, size=(8, 8)))["blur"] for index in range(1000)]
    assert 0.1 <= min(sigmas) < 0.12
    assert 1.98 < max(sigmas) <= 2
    assert abs(np.mean(sigmas) - 1.05) < 0.06


def test_pixels_depend_on_seed_epoch_and_index_alone() -> None:
    pictures = [(ppm(make_picture((33, 25), seed)), seed) for seed in range(12)]
    options: dict[str, Any] = {"augment": ImageAugment(policy=RandAugment(), erase=0.5, **EVERY), "seed": 5, "size": 24}

    def contents(loader: Any) -> dict[int, bytes]:
        return {
            int(index): it.tobytes() for batch in loader for index, it in zip(batch.index, batch.image, strict=True)
        }

    expected = contents(make(pictures, 12, **options))
    for other in ({"batch_size": 5}, {"num_threads": 5}, {"shuffle": True}):
        assert contents(make(pictures, **{**options, **other})) == expected
    for name in instruction_sets():
        with using_instruction_set(name):
            assert contents(make(pictures, 4, **options)) == expected
    loader = make(pictures, 12, **options)
    list(loader)
    second = contents(loader)
    assert all(second[index] != expected[index] for index in expected)


def test_colours_keep_their_draws_when_other_steps_are_added() -> None:
    picture = make_picture((33, 25))
    colors = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.5, "hue": 0.2}
    plain = still(**colors)
    with_blur = still(**colors, blur=0.5)
    alike = 0
    for index, (one, other) in enumerate(zip(change(picture, plain, 12), change(picture, with_blur, 12), strict=True)):
        steps = with_blur.steps(index, seed=0, epoch=0, size=(33, 25))
        assert steps[:4] == plain.steps(index, seed=0, epoch=0, size=(33, 25))
        if len(steps) == 4:
            assert (one == other).all()
            alike += 1
    assert 0 < alike < 12


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("dtype", "pix_fmt"), [("float32", "rgb24"), ("float16", "bgr24"), ("uint8", "bgr24")])
def test_every_format_has_the_same_pixels(layout: str, dtype: str, pix_fmt: str) -> None:
    picture = make_picture((37, 29))
    augment = still(**EVERY)
    expected = change(picture, augment, 6)
    values: dict[str, Any] = {} if dtype == "uint8" else {"mean": MEAN, "std": STD}
    record = ImageOptions(37, 29, layout=layout, dtype=dtype, pix_fmt=pix_fmt, interpolation="bilinear", **values)  # type: ignore[arg-type]
    (batch,) = make([(ppm(picture), 0)] * 6, 6, size=None, options=record, augment=augment)
    found = batch.image if layout == "NHWC" else batch.image.transpose(0, 2, 3, 1)
    if dtype != "uint8":
        found = found.astype(np.float64) * STD + MEAN
        found = np.round(found * 255)
    assert np.abs((found[..., ::-1] if pix_fmt == "bgr24" else found) - expected).max() <= (
        1 if dtype == "float16" else 0
    )


def rectangles(before: Any, after: Any) -> list[tuple[int, int, int, int] | None]:
    boxes: list[tuple[int, int, int, int] | None] = []
    for one, other in zip(before, after, strict=True):
        rows, columns = np.nonzero((one != other).any(axis=-1))
        boxes.append(
            (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1) if len(rows) else None
        )
    return boxes


def test_erase_overwrites_rectangles_as_random_erasing_does() -> None:
    picture = make_picture((40, 30)) | 1
    count = 400
    plain = change(picture, still(), count)
    erased = change(picture, still(erase=0.5, erase_value=(0, 0, 0)), count)
    boxes = rectangles(plain, erased)
    found = [box for box in boxes if box]
    assert abs(len(found) / count - 0.5) < 0.1
    for one, box in zip(erased, boxes, strict=True):
        if box:
            left, top, right, bottom = box
            assert not one[top:bottom, left:right].any()
    areas = [(right - left) * (bottom - top) / 1200 for left, top, right, bottom in found]
    ratios = [(bottom - top) / (right - left) for left, top, right, bottom in found]
    # Sides are whole pixels.
    assert min(areas) < 0.05
    assert 0.3 < max(areas) < 0.38
    assert min(ratios) < 0.6
    assert max(ratios) > 1.8
    assert len(set(boxes)) > 100


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_erase_follows_mean_and_std_and_a_transform(layout: str, dtype: str) -> None:
    picture = make_picture((40, 30))
    options: dict[str, Any] = {"layout": layout, "dtype": dtype, "mean": MEAN, "std": STD, "seed": 3}
    plain, erased, transformed = (
        change(picture, still(erase=erase), 8, **options, **more)
        for erase, more in ((0, {}), (1, {}), (1, {"transform": lambda image: image}))
    )
    changed = plain != erased
    assert changed.any()
    assert (erased[changed] == 0).all()
    assert (erased == transformed).all()
    values = change(picture, still(erase=1, erase_value=(1, 2, 3)), 8, **options)
    channels = np.moveaxis(values, 1 if layout == "NCHW" else -1, 0)
    whole = np.moveaxis(changed, 1 if layout == "NCHW" else -1, 0).all(axis=0)
    assert [np.unique(channel[whole]).tolist() for channel in channels] == [[1], [2], [3]]


@pytest.fixture(scope="module")
def torchvision() -> None:
    if find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    importlib.import_module("tests.repository.beside_torchvision")
    # Its pool of threads would stay.
    importlib.import_module("torch").set_num_threads(1)


@pytest.mark.pages
@pytest.mark.usefixtures("torchvision")
@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(12, 60), st.integers(12, 60)),
    seed=st.integers(0, 2**64 - 1),
    magnitude=st.integers(0, 30),
    name=st.sampled_from(["trivial", "rand", "blur", "sharpness", "solarize", "posterize", "hue"]),
)
def test_any_step_gives_what_torchvision_gives(size: tuple[int, int], seed: int, magnitude: int, name: str) -> None:
    picture = make_picture(size, seed % 1000)
    augment = {
        "trivial": still(policy=TrivialAugment()),
        "rand": still(policy=RandAugment(1, magnitude)),
        "blur": still(blur=1, blur_kernel=2 * (magnitude % 5) + 3),
        "sharpness": still(sharpness=1, sharpness_factor=magnitude / 8),
        "solarize": still(solarize=1, solarize_threshold=8.5 * magnitude),
        "posterize": still(posterize=1, posterize_bits=magnitude % 9),
        "hue": still(hue=0.5),
    }[name]
    kernel = 2 * (magnitude % 5) + 3
    for index, found in enumerate(change(picture, augment, 4, seed=seed)):
        expected, levels, moved = picture, 1, False
        for step, value in augment.steps(index, seed=seed, epoch=0, size=size):
            if not (step in ("brightness", "contrast", "saturation") and name == "hue"):
                expected = by_torchvision(expected, step, value, kernel)
                levels, moved = tolerance(step), step in ("shear_x", "shear_y", "rotate")
        far = np.abs(found.astype(int) - expected).max(axis=-1) > levels
        # Where a pixel lies between two, floats of 32 bits choose either.
        assert np.mean(far) <= (0.02 if moved else 0), (step, value)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"blur": 2}, ValueError, "`blur`"),
        ({"grayscale": "no"}, TypeError, "`grayscale`"),
        ({"blur_sigma": 1}, TypeError, "`blur_sigma`"),
        ({"blur_sigma": (0, 1)}, ValueError, "`blur_sigma`"),
        ({"blur_kernel": 4}, ValueError, "`blur_kernel`.*odd"),
        ({"solarize_threshold": 300}, ValueError, "`solarize_threshold`"),
        ({"posterize_bits": 9}, ValueError, "`posterize_bits`"),
        ({"sharpness_factor": -1}, ValueError, "`sharpness_factor`"),
        ({"erase_scale": (0.5, 0.1)}, ValueError, "`erase_scale`"),
        ({"erase_ratio": (0, 1)}, ValueError, "`erase_ratio`"),
        ({"policy": "rand"}, TypeError, "`policy`"),
    ],
)
def test_image_augment_refuses_what_makes_no_sense(fields: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ImageAugment(**fields)


@pytest.mark.parametrize(
    ("make_policy", "message"),
    [
        (lambda: RandAugment(num_ops=0), "`num_ops`"),
        (lambda: RandAugment(magnitude=31), "`magnitude`"),
        (lambda: TrivialAugment(0), "`num_magnitude_bins`"),
    ],
)
def test_policies_refuse_what_makes_no_sense(make_policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_policy()


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({"erase": 1, "erase_value": -1}, {"dtype": "uint8"}, "`erase_value`.*255"),
        ({"erase": 1, "erase_value": (1, 2)}, {}, "`erase_value`.*3 channels"),
        ({"erase": 1, "erase_value": float("nan")}, {}, "`erase_value`"),
        ({"size": 8}, {}, "`augment.size`"),
    ],
)
def test_loader_refuses_changes_that_do_not_fit(fields: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make([(ppm(make_picture()), 0)], augment=still(**fields), **options)


def test_loader_refuses_changes_of_gray_images() -> None:
    with pytest.raises(ValueError, match="`pix_fmt`"):
        make([(ppm(make_picture()), 0)], size=None, options=ImageOptions(8, 8, pix_fmt="gray"), augment=still(blur=1))
