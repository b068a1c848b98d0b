"""What torchvision's v2 transforms make of images is what torchvision makes of them, normalised afterwards."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.io.images import make_jpeg

from spdl.dataloader import ImageLoader
from spdl.io import load_image_batch, to_torch
from spdl.pipeline import ItemContext

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.pages

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SAMPLES = [(make_jpeg(60 + index, 50 - index, seed=index), index % 3) for index in range(12)]

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "ColorJitter": lambda v2: v2.ColorJitter(0.5, 0.5, 0.5, 0.2),
    "ColorJitter of little": lambda v2: v2.ColorJitter(brightness=(1, 1.0001)),
    "GaussianBlur": lambda v2: v2.GaussianBlur(5),
    "Grayscale": lambda v2: v2.Grayscale(3),
    "Solarize": lambda v2: v2.RandomSolarize(128, p=0.5),
    "Posterize": lambda v2: v2.RandomPosterize(3, p=0.5),
    "Equalize": lambda v2: v2.RandomEqualize(p=0.5),
    "AutoContrast": lambda v2: v2.RandomAutocontrast(p=0.5),
    "Invert": lambda v2: v2.RandomInvert(p=0.5),
    "HorizontalFlip": lambda v2: v2.RandomHorizontalFlip(),
    "Erasing": lambda v2: v2.RandomErasing(p=0.7, value=(12, 200, 3)),
    "ElasticTransform": lambda v2: v2.ElasticTransform(30.0),
    "RandAugment": lambda v2: v2.RandAugment(),
    "AugMix": lambda v2: v2.AugMix(),
    "CenterCrop": lambda v2: v2.CenterCrop(20),
    "ToDtype": lambda v2: v2.ToDtype(torch.float32, scale=True),
    "Resize of floats": lambda v2: v2.Compose(
        [v2.ToDtype(torch.float32, scale=True), v2.Resize(50, v2.InterpolationMode.BICUBIC), v2.GaussianNoise(0, 0.1)]
    ),
    "ToImage": lambda v2: v2.Compose([v2.ToImage(), v2.RandomPhotometricDistort(p=1)]),
}


@pytest.fixture(scope="module")
def v2() -> Any:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    importlib.import_module("tests.repository.beside_torchvision")
    return importlib.import_module("torchvision.transforms.v2")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_images_are_those_of_torchvisions_order(v2: Any, name: str, layout: Any) -> None:
    transform = TRANSFORMS[name](v2)

    def seeded(image: torch.Tensor, context: ItemContext) -> Any:
        with torch.random.fork_rng([]):
            torch.manual_seed(context.key(0) % 2**63)
            return transform(image)

    raw = to_torch(load_image_batch([data for data, _ in SAMPLES], width=32, height=32, mode="crop", layout="NCHW"))
    loader = ImageLoader(
        SAMPLES,
        12,
        size=32,
        interpolation="bicubic",
        transform=seeded,
        layout=layout,
        mean=MEAN,
        std=STD,
        num_threads=1,
    )
    (batch,) = loader
    follow = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    for index, image in enumerate(raw):
        expected = follow(seeded(image, ItemContext(0, index, index)))
        own = batch.image[index] if layout == "NCHW" else batch.image[index].permute(2, 0, 1)
        torch.testing.assert_close(own, torch.Tensor(expected), atol=2e-6, rtol=1e-6)
