"""A transform gets images as image libraries have them; mean, std, dtype and layout follow it."""

from __future__ import annotations

import io
import itertools
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from tests.io.images import make_jpeg

from spdl.dataloader import ArrayLoader, AudioLoader, ImageAugment, ImageBatch, ImageLoader
from spdl.io import ImageOptions, load_image_batch, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMAL: dict[str, Any] = {"mean": MEAN, "std": STD}
COUNT = 7
SAMPLES = [(make_jpeg(40 + index, 50 - index, seed=index), index % 3) for index in range(COUNT)]
# No square, so that sides are not mistaken for each other.
SIZE = (20, 14)


def make(**options: Any) -> ImageLoader:
    return ImageLoader(SAMPLES, COUNT, **{"size": SIZE, "output": "numpy", "num_threads": 3, **options})


def images_of(**options: Any) -> Any:
    (batch,) = make(**options)
    return batch.image


def make_wav(seed: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes(np.random.default_rng(seed).integers(-30000, 30000, 200, np.int16).tobytes())
    return file.getvalue()


def normalise(images: Any) -> Any:
    """Return bytes (..., H, W, C) as images (..., C, H, W) as torchvision's ToDtype and Normalize make them."""
    values = np.asarray(images, np.float64) / 255
    return np.moveaxis((values - MEAN) / STD, -1, -3)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_a_transform_gets_bytes(output: Any) -> None:
    seen: list[Any] = []

    def look(image: Any) -> Any:
        seen.append(image)
        return image

    images_of(output=output, transform=look, layout="NHWC", dtype="float16", **NORMAL)
    expected = to_numpy(
        load_image_batch(
            [data for data, _ in SAMPLES], width=SIZE[0], height=SIZE[1], mode="crop", interpolation="bilinear"
        )
    )
    for image, own in zip(seen, expected, strict=True):
        if output == "torch":
            assert isinstance(image, torch.Tensor)
            assert image.is_contiguous()
            assert torch.equal(image, torch.from_numpy(own).permute(2, 0, 1))
        else:
            assert image.dtype == np.uint8
            assert image.flags.c_contiguous
            assert (image == own).all()


FORMATS = [
    {"layout": layout, "dtype": dtype, "pix_fmt": pix_fmt, "mean": mean and mean[: 1 if pix_fmt == "gray" else 3]}
    for layout, dtype, pix_fmt, mean in itertools.product(
        ("NCHW", "NHWC"), ("uint8", "float16", "float32"), ("rgb24", "bgr24", "gray"), (None, MEAN)
    )
    if not (mean and dtype == "uint8")
]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_a_transform_that_changes_nothing_changes_nothing(options: dict[str, Any], output: Any) -> None:
    std = options["mean"] and STD[: len(options["mean"])]
    record = ImageOptions(*SIZE, mode="crop", std=std, **options)
    (plain,) = make(size=None, options=record, output=output)
    (batch,) = make(size=None, options=record, output=output, transform=lambda image: image)
    assert type(batch.image) is type(plain.image)
    assert (batch.image.dtype, batch.image.shape) == (plain.image.dtype, plain.image.shape)
    assert (batch.image == plain.image).all()


def erase(image: Image.Image) -> Image.Image:
    image.paste((7, 200, 90), (3, 2, 11, 9))
    return image


# Colours of a normalised image, or of one from 0 to 1, would become others.
WITH_PILLOW: dict[str, Callable[[Image.Image], Image.Image]] = {
    "solarize": lambda image: ImageOps.solarize(image, 130),
    "posterize": lambda image: ImageOps.posterize(image, 2),
    "equalize": ImageOps.equalize,
    "autocontrast": ImageOps.autocontrast,
    "invert": ImageOps.invert,
    "gray": lambda image: ImageOps.grayscale(image).convert("RGB"),
    "mirror": ImageOps.mirror,
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(1.5)),
    "brightness": lambda image: ImageEnhance.Brightness(image).enhance(1.7),
    "contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.4),
    "saturation": lambda image: ImageEnhance.Color(image).enhance(2.5),
    "erase": erase,
}


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("name", WITH_PILLOW)
def test_pixels_are_transformed_and_then_normalised(name: str, output: Any) -> None:
    def transform(image: Any) -> Any:
        pixels = image.permute(1, 2, 0).numpy() if output == "torch" else image
        result = np.asarray(WITH_PILLOW[name](Image.fromarray(np.ascontiguousarray(pixels))))
        return torch.from_numpy(result.copy()).permute(2, 0, 1) if output == "torch" else result

    raw = images_of(dtype="uint8", layout="NHWC")
    expected = normalise([WITH_PILLOW[name](Image.fromarray(image)) for image in raw])
    images = np.asarray(images_of(output=output, transform=transform, **NORMAL))
    np.testing.assert_allclose(images, expected, atol=2e-6)
    assert np.abs(images - images_of(**NORMAL)).max() > 0.1


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64, torch.bfloat16, "f2", ">f4", "f8"])
def test_floats_are_values_from_0_to_1(kind: Any, layout: Any, dtype: Any) -> None:
    is_torch = isinstance(kind, torch.dtype)
    results: list[Any] = []

    def scale(image: Any) -> Any:
        results.append(image.to(kind) / 255 if is_torch else image.astype(kind) / np.array(255, kind))
        return results[-1]

    output = "torch" if is_torch else "numpy"
    images = images_of(output=output, transform=scale, layout=layout, dtype=dtype, **NORMAL)
    assert str(images.dtype).removeprefix("torch.") == dtype
    values = [it.double().permute(1, 2, 0).numpy() if is_torch else it.astype(float) for it in results]
    expected = (np.stack(values) - MEAN) / STD
    if layout == "NCHW":
        expected = np.moveaxis(expected, -1, 1)
    np.testing.assert_allclose(np.asarray(images), expected, atol=2e-6 if dtype == "float32" else 2e-3)


def test_floats_stay_as_they_are_without_mean_and_std() -> None:
    def standardise(image: torch.Tensor) -> torch.Tensor:
        values = image.float()
        return (values - values.mean()) / values.std() * 40

    results = torch.stack([standardise(torch.from_numpy(it)) for it in images_of(dtype="uint8")])
    assert torch.equal(images_of(output="torch", transform=standardise), results)
    halves = images_of(output="torch", transform=standardise, dtype="float16", layout="NHWC")
    assert torch.equal(halves, results.half().permute(0, 2, 3, 1))


def test_each_image_goes_by_its_own_dtype() -> None:
    def scale_some(image: torch.Tensor) -> torch.Tensor:
        return image / 255 if image[0, 0, 0] % 2 else image

    images = images_of(output="torch", transform=scale_some, **NORMAL)
    np.testing.assert_allclose(images, images_of(**NORMAL), atol=1e-6)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "a crop": lambda image: image[3:11, 5:17],
    "mirrored": lambda image: image[:, ::-1],
    "upside down": lambda image: image[::-1, ::2],
    "transposed": lambda image: image.swapaxes(0, 1),
    "other channels first": lambda image: image[..., ::-1],
    "one row for all": lambda image: np.broadcast_to(image[:1], image.shape),
    "a few crops": lambda image: np.stack([image[:8, :8], image[-8:, -8:]]),
    "crops of crops": lambda image: np.stack([image[:8, :8], image[-8:, -8:]])[None][:, ::-1, 1:],
}


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_result_may_be_any_view(name: str, dtype: str) -> None:
    def view(image: Any) -> Any:
        return VIEWS[name](image if dtype == "uint8" else (image / 255).astype(np.float32))

    raw = images_of(dtype="uint8", layout="NHWC")
    np.testing.assert_allclose(
        images_of(transform=view, **NORMAL), normalise([VIEWS[name](it) for it in raw]), atol=2e-6
    )


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_images_of_several_sizes_are_a_list(output: Any) -> None:
    def shorten(image: Any) -> Any:
        return image[:, : 5 + int(image.ravel()[0]) % 3] if output == "numpy" else image[:, :, : 5 + image[0, 0, 0] % 3]

    images = images_of(output=output, transform=shorten, **NORMAL)
    assert isinstance(images, list)
    assert all(isinstance(it, torch.Tensor if output == "torch" else np.ndarray) for it in images)
    raw = images_of(dtype="uint8", layout="NHWC")
    for image, own in zip(images, raw, strict=True):
        np.testing.assert_allclose(image, normalise(own[:, : 5 + int(own[0, 0, 0]) % 3]), atol=2e-6)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_other_channels(channels: int) -> None:
    images = images_of(output="torch", transform=lambda image: image[:1].repeat(channels, 1, 1))
    raw = images_of(dtype="uint8")
    np.testing.assert_allclose(images, np.repeat(raw[:, :1], channels, 1) / np.float32(255), atol=1e-7)


def test_what_is_no_image_stays_as_it_is() -> None:
    features: dict[str, Callable[[torch.Tensor], Any]] = {
        "a vector": lambda image: image.double().mean((1, 2)),
        "a mask": lambda image: image > 100,
        "classes": lambda image: image.long(),
        "a map": lambda image: image.float()[0] * 1000,
        "many channels": lambda image: image.float().repeat(3, 1, 1),
    }
    raw = torch.from_numpy(images_of(dtype="uint8"))
    for feature in features.values():
        found = images_of(output="torch", transform=feature)
        expected = torch.stack([feature(image) for image in raw])
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    means = images_of(output="torch", transform=lambda image: float(image.float().mean()))
    assert torch.allclose(means, raw.float().mean((1, 2, 3)))
    assert images_of(dtype="uint8", transform=lambda image: [image, image[:3]])[0][1].shape == (3, SIZE[0], 3)


NO_IMAGES: dict[str, tuple[Callable[[Any], Any], dict[str, Any], type[Exception], str]] = {
    "features with a mean": (lambda image: image.float().mean((1, 2)), NORMAL, TypeError, "float32 .*`mean` and `std`"),
    "a plane with a mean": (lambda image: image[0], NORMAL, TypeError, r"uint8 \(14, 20\)"),
    "a plane of bytes": (lambda image: image[0], {}, TypeError, r"`dtype`, float32, follows .* dtype=\"uint8\""),
    "many channels of bytes": (lambda image: image.repeat(2, 1, 1), {}, TypeError, r"uint8 \(6, 14, 20\)"),
    "channels last": (lambda image: image.permute(1, 2, 0), {}, TypeError, r"tensor \(C, H, W\)"),
    "two views": (lambda image: [image, image], {}, TypeError, "returned list for sample 0"),
    "views with a mean": (lambda image: {image}, NORMAL, TypeError, "returned set for sample 0"),
    "an image of Pillow": (lambda image: Image.new("RGB", (4, 4)), {}, TypeError, "returned Image for"),
    "an array": (lambda image: image.numpy(), {}, TypeError, r"got a tensor \(C, H, W\)"),
    "on another device": (lambda image: image.to("meta"), {}, TypeError, r"uint8 \(3, 14, 20\) on meta"),
    "one channel": (lambda image: image[:1], NORMAL, ValueError, "numbers for 3 channels"),
    "floats as bytes": (lambda image: image / 255, {"dtype": "uint8"}, TypeError, "`dtype` is uint8"),
    "bytes as floats": (lambda image: image.float(), NORMAL, ValueError, "floats from .* 0 to 1: have it scale"),
    "normalised": (lambda image: (image / 255 - 0.5) / 0.2, NORMAL, ValueError, "normalises itself"),
    "integers": (lambda image: image.int(), NORMAL, TypeError, r"int32 \(3, 14, 20\)"),
}


@pytest.mark.parametrize("name", NO_IMAGES)
def test_what_cannot_be_normalised_is_an_error(name: str) -> None:
    transform, options, error, message = NO_IMAGES[name]
    with pytest.raises(error, match=message) as raised:
        images_of(output="torch", transform=transform, **options)
    assert "`transform` returned" in str(raised.value)
    assert "for sample " in str(raised.value)


def test_an_error_names_the_sample() -> None:
    paths = [f"photos/{index}.jpg" for index in range(COUNT)]
    samples = [{"image": data, "path": path} for (data, _), path in zip(SAMPLES, paths, strict=True)]
    number = iter(range(COUNT))
    loader = ImageLoader(
        samples, COUNT, size=8, transform=lambda image: image.float() if next(number) == 3 else image, **NORMAL
    )
    with pytest.raises(ValueError, match=r"for sample 3, 'photos/3\.jpg'\."):
        next(iter(loader))


def test_overshoot_is_no_error() -> None:
    """A resize of floats gives some."""

    def overshoot(image: torch.Tensor) -> torch.Tensor:
        return image / 255 * 1.4 - 0.2

    images = images_of(output="torch", transform=overshoot, **NORMAL)
    raw = images_of(dtype="uint8", layout="NHWC")
    np.testing.assert_allclose(images, normalise(raw * 1.4 - 0.2 * 255), atol=1e-5)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_images_are_mixed_after_the_transform(output: Any) -> None:
    augment = ImageAugment(scale=None, flip=0, mixup=0.4, cutmix=1.0, num_classes=3)
    common: dict[str, Any] = {"augment": augment, "output": output, **NORMAL}
    (plain,) = make(**common)
    (batch,) = make(transform=lambda image: image, **common)
    assert (batch.image == plain.image).all()
    assert (batch.label == plain.label).all()
    for transform in (lambda image: image.mean(), lambda image: image[:, : 9 + int(image.ravel()[0] % 2)]):
        with pytest.raises(TypeError, match="`transform` must be"):
            images_of(augment=augment, transform=transform, dtype="float32")


def test_crops_flips_and_colours_come_before_it() -> None:
    common: dict[str, Any] = {"augment": ImageAugment(brightness=0.5, hue=0.2), "seed": 3}
    raw = images_of(dtype="uint8", layout="NHWC", **common)
    images = images_of(transform=lambda image: 255 - image, **common, **NORMAL)
    np.testing.assert_allclose(images, normalise(255 - raw), atol=2e-6)


def test_a_batch_transform_gets_what_the_loop_would_get() -> None:
    seen: list[ImageBatch] = []

    def halve(batch: ImageBatch) -> Any:
        seen.append(batch)
        return batch.image / 2

    def flip(image: Any) -> Any:
        return image[:, ::-1]

    (halved,) = make(transform=flip, batch_transform=halve, layout="NHWC", **NORMAL)
    (plain,) = make(transform=flip, layout="NHWC", **NORMAL)
    assert (seen[0].image == plain.image).all()
    assert (halved == plain.image / 2).all()


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_failures_leave_images_in_their_places(on_error: Any) -> None:
    broken = [(b"no photo", 9), *SAMPLES[:2], (b"", 9), *SAMPLES[2:]]
    options: dict[str, Any] = {"size": SIZE, "output": "numpy", "on_error": on_error, "rank": 0, "world_size": 1}
    (plain,) = ImageLoader(broken, len(broken), **options, **NORMAL)
    (batch,) = ImageLoader(broken, len(broken), transform=lambda image: 255 - image, **options, **NORMAL)
    assert batch.index.tolist() == plain.index.tolist()
    raw = images_of(dtype="uint8", layout="NHWC")
    own = [SAMPLES.index(broken[index]) for index in batch.index]
    np.testing.assert_allclose(batch.image, normalise(255 - raw[own]), atol=2e-6)


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("medium", ["sounds", "arrays"])
def test_nothing_follows_a_transform_of_sounds_or_arrays(medium: str, output: Any) -> None:
    seen: list[Any] = []

    def look(data: Any) -> Any:
        seen.append(data)
        return data[:, ::2] * 3

    options: dict[str, Any] = {"output": output, "num_threads": 2}

    def make_loader(**more: Any) -> Any:
        if medium == "arrays":
            files = [{"image": np.full((3, 4, 5), number, np.uint8), "label": np.array(number)} for number in range(4)]
            return ArrayLoader([{"file": file} for file in files], 4, **options, **more)
        sounds = [(make_wav(number), number) for number in range(4)]
        return AudioLoader(sounds, 4, sample_rate=8000, seconds=0.01, **options, **more)

    (plain,) = make_loader()
    (batch,) = make_loader(transform=look)
    medium_of = plain.medium
    assert len(seen) == 4
    assert all((one == two).all() for one, two in zip(seen, plain[medium_of], strict=True))
    assert seen[0].dtype == plain[medium_of].dtype == batch[medium_of].dtype
    assert (batch[medium_of] == plain[medium_of][:, :, ::2] * 3).all()


def test_arrays_become_tensors_for_a_loop_of_tensors() -> None:
    files = [{"file": {"image": np.full((2, 3), number), "label": np.array(number)}} for number in range(3)]
    (batch,) = ArrayLoader(files, 3, transform=lambda data: data.numpy() * 2)
    assert torch.equal(batch.data, torch.arange(3)[:, None, None].expand(3, 2, 3) * 2)
    means = images_of(output="torch", transform=lambda image: image.numpy().mean((1, 2)))
    assert isinstance(means, torch.Tensor)


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("options", [NORMAL, {}, {"dtype": "float16"}, {"layout": "NHWC", **NORMAL}])
@pytest.mark.parametrize(("value", "count"), [(np.nan, 1), (np.inf, 2), (-np.inf, 3)])
def test_floats_that_are_no_numbers_are_errors(output: Any, options: dict[str, Any], value: float, count: int) -> None:
    seen = 0

    def spoil(image: Any) -> Any:
        nonlocal seen
        seen += 1
        floats = np.asarray(image, np.float32) / 255
        if seen == 3:
            floats.reshape(-1)[7 : 7 + 5 * count : 5] = value
        return torch.from_numpy(floats) if output == "torch" else floats

    # What is beyond the range of images is told by that, if there is one.
    in_range = np.isnan(value) or "mean" not in options
    expected = (
        f"sample 2, .* {count} of {20 * 14 * 3} are NaN or inf" if in_range else "inf.* for sample 2, .*from 0 to 1"
    )
    with pytest.raises(ValueError, match=f"`transform` returned floats .*{expected}"):
        images_of(output=output, transform=spoil, num_threads=1, **options)


def test_floats_that_a_dtype_cannot_hold_are_errors() -> None:
    def scale(image: Any) -> Any:
        return image.astype(np.float32) * 300

    assert images_of(transform=scale).max() > 65504
    with pytest.raises(ValueError, match=r"floats from .* to \S*e\+04 for .*float16, has none beyond 65504"):
        images_of(transform=scale, dtype="float16")


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("side", [0, 1])
def test_images_without_pixels_are_errors(output: Any, dtype: Any, side: int) -> None:
    def cut(image: Any) -> Any:
        height, width = (0, 3) if side else (3, 0)
        return image[:, :height, :width] if output == "torch" else image[:height, :width]

    with pytest.raises(ValueError, match=r"`transform` returned uint8 .* for sample \d, .*has no pixels.* at least 1"):
        images_of(output=output, dtype=dtype, transform=cut)
