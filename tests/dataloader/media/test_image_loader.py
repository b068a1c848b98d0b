"""The image loader delivers what its parts do one by one, from any kind of sample, and explains mistakes."""

from __future__ import annotations

import gc
import pickle
import threading
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from tests.dataloader.media.image_loading import COUNT, MEAN, STD, Backwards, contents, make
from tests.io.images import make_jpeg, resize_with_pillow
from tests.pipeline.support import wait_until

from spdl.dataloader import ImageBatch, ImageLoader
from spdl.io import ImageOptions
from spdl.pipeline import ItemContext  # noqa: TC001 - the loader looks it up.
from spdl.source import ImageFolder, SequentialOrder, ShuffledOrder


def test_a_batch_unpacks_as_images_and_labels_and_has_more(photos: ImageFolder) -> None:
    loader = ImageLoader(photos, batch_size=4, size=16)
    assert len(loader) == 6
    seen = []
    for images, labels in loader:
        assert images.dtype == torch.float32
        assert images.shape[1:] == (3, 16, 16)
        assert labels.dtype == torch.int64
        seen += labels.tolist()
    assert seen == photos.targets
    batch = next(iter(loader))
    assert isinstance(batch, ImageBatch)
    assert batch[0] is batch.image is batch["image"]
    assert batch[1] is batch.label
    assert batch[:2] == (batch.image, batch.label) == tuple(batch)
    assert batch.path == [sample.path for sample in photos[:4]]
    assert batch.index.tolist() == [0, 1, 2, 3]
    assert (batch.epoch, batch.failures) == (1, ())
    with pytest.raises(KeyError, match="'mask' is not a field"):
        batch["mask"]


def test_images_are_those_of_pillow(photos: ImageFolder) -> None:
    loader = make(photos, size=(20, 30), mode="stretch", layout="NHWC", dtype="uint8", batch_size=5)
    for batch in loader:
        for path, image in zip(batch.path, batch.image, strict=True):
            assert (image == resize_with_pillow(Path(str(path)).read_bytes(), 20, 30, "bilinear")).all()


def test_values_are_normalised(photos: ImageFolder) -> None:
    (batch,) = make(photos, batch_size=COUNT, mean=MEAN, std=STD)
    (raw,) = make(photos, batch_size=COUNT, dtype="uint8")
    mean, std = (np.array(each, np.float32).reshape(3, 1, 1) for each in (MEAN, STD))
    np.testing.assert_allclose(batch.image, (raw.image / np.float32(255) - mean) / std, atol=1e-5)


def test_options_can_be_a_record(photos: ImageFolder) -> None:
    options = ImageOptions(16, 16, "crop", "bilinear", layout="NCHW", dtype="float32", mean=MEAN, std=STD)
    assert contents(make(photos, size=None, options=options)) == contents(make(photos, mean=MEAN, std=STD))


@pytest.mark.parametrize("name", ["epoch", "failures", "fields", "replace"])
def test_a_field_by_a_name_of_the_batch_is_refused(name: str) -> None:
    samples = [{"image": make_jpeg(8, 8), "label": 0, name: 1}]
    with pytest.raises(ValueError, match=f"rename '{name}'"):
        next(iter(make(samples, 1)))


@pytest.mark.parametrize("own", [5, "a", None, 1.0, np.zeros(2)])
def test_an_index_that_is_not_the_position_is_refused(own: Any) -> None:
    image = make_jpeg(8, 8)
    samples = [{"image": image, "index": 0}, {"image": image, "index": np.int64(1)}]
    (batch,) = make(samples, 2)
    assert batch.index.tolist() == [0, 1]
    samples[1]["index"] = own
    with pytest.raises(
        ValueError, match=r"`source\[1\].index` must be left out, or 1: a batch has the position in the"
    ):
        next(iter(make(samples, 2)))


def test_samples_of_a_source_within_another_have_their_position_there(photos: ImageFolder) -> None:
    (batch,) = make([photos[7], photos[3]], 2)
    assert batch.index.tolist() == [0, 1]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("labels", [list(np.array(["cat", "dog"])), [2**70, 1], [np.bytes_(b"x"), np.bytes_(b"y")]])
def test_labels_that_make_no_array_make_a_list(labels: list[Any], output: str) -> None:
    _, got = next(iter(make([(make_jpeg(8, 8), label) for label in labels], 2, output=output)))
    assert got == labels


class Extra(NamedTuple):
    image: Any
    label: str
    box: tuple[float, ...]
    weight: float


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_tensors_of_a_type_that_numpy_lacks_are_stacked(photos: ImageFolder, dtype: torch.dtype) -> None:
    latents = [torch.full((2, 3), number + 0.5).to(dtype) for number in range(4)]
    odd = [torch.zeros(number + 1, dtype=dtype) for number in range(4)]
    source = [
        {"image": photo.image, "latent": latent, "odd": more}
        for photo, latent, more in zip(photos, latents, odd, strict=False)
    ]
    (batch,) = make(source, batch_size=4, output="torch")
    assert batch.latent.dtype == dtype
    assert torch.equal(batch.latent.float(), torch.stack([each.float() for each in latents]))
    assert batch.odd == odd
    (batch,) = make(source, batch_size=4, output="numpy")
    assert all(one is other for one, other in zip(batch.latent, latents, strict=True))


def test_any_record_is_a_sample(photos: ImageFolder) -> None:
    paths = [sample.path for sample in photos]
    batch = next(iter(make([Extra(path, "cat", (1.0, 2.0), 0.5) for path in paths])))
    assert (batch.label, batch.box) == (["cat"] * 4, [(1.0, 2.0)] * 4)
    assert batch.weight.tolist() == [0.5] * 4
    assert batch.weight.dtype == np.float32
    assert batch.path == paths[:4]
    plain = make(paths, on_error="skip")
    images, labels = next(iter(plain))
    assert labels is None
    assert (images == batch.image).all()
    dicts = [{"image": Path(path).read_bytes(), "label": np.arange(2), "id": path} for path in paths]
    batch = next(iter(make(dicts)))
    assert (batch.label.tolist(), batch.id, batch.path) == ([[0, 1]] * 4, paths[:4], [None] * 4)
    with pytest.raises(TypeError, match=r"`source\[1\]` must be a sample with the fields image, label"):
        list(make([{"image": paths[0], "label": 1}, {"image": paths[1]}]))
    with pytest.raises(TypeError, match=r"`source\[0\]`.*a field `image`"):
        list(make([{"picture": paths[0]}]))


def test_transforms_follow(photos: ImageFolder) -> None:
    def spoil(image: torch.Tensor, context: ItemContext) -> torch.Tensor:
        contexts.append((context.epoch, context.position, context.index))
        noise = torch.Generator().manual_seed(context.key(seed=7) % 2**63)
        return image[:, ::2] + torch.rand((), generator=noise)

    kinds = set()
    contexts: list[tuple[int, int, int]] = []

    def halve(batch: ImageBatch) -> dict[str, Any]:
        kinds.add(threading.current_thread())
        return {"pixels": batch.image / 2, "label": batch.label}

    options: dict[str, Any] = {"output": "torch", "shuffle": True, "transform": spoil, "batch_transform": halve}
    loader = make(photos, **options)
    batches = list(loader)
    order = ShuffledOrder(COUNT, seed=0).take(0, np.arange(COUNT))
    assert sorted(contexts) == [(0, position, int(index)) for position, index in enumerate(order)]
    assert batches[0]["pixels"].shape == (4, 3, 8, 16)
    assert threading.current_thread() not in kinds
    again = list(make(photos, **{**options, "num_threads": 5}))
    assert all((one["pixels"] == two["pixels"]).all() for one, two in zip(batches, again, strict=True))
    mirrored = make(photos, transform=lambda image: image[:, ::-1])
    for one, two in zip(mirrored, make(photos), strict=True):
        assert (one.image == two.image[..., ::-1]).all()


def test_the_errors_of_transforms_and_sources_say_where(photos: ImageFolder) -> None:
    def fail(image: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError) as raised:
        list(make(photos, transform=fail, on_error="skip"))
    given, where = raised.value.__notes__[:2]
    assert given == "`transform` got a ndarray of uint8, (16, 16, 3)"
    assert f"transforming sample 0, {photos[0].path!r}" in where
    with pytest.raises(TypeError, match="`batch_transform` returned None"):
        list(make(photos, batch_transform=lambda batch: None))

    class Lost(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            raise LookupError("gone")

    with pytest.raises(LookupError) as raised_too:
        list(make(Lost([1, 2])))
    assert "looking up sample 0 of Lost" in raised_too.value.__notes__[0]


def test_statistics_say_what_limits(photos: ImageFolder) -> None:
    loader = make(photos)
    with pytest.raises(RuntimeError, match="no statistics before its first batch"):
        loader.statistics()
    assert len(list(loader)) == 6
    assert [stage.name for stage in loader.statistics().stages] == ["src", "load", "sink"]
    assert loader.statistics().stages[1].num_completed == 6


def test_a_loop_that_is_left_ends_its_threads(photos: ImageFolder) -> None:
    before = threading.active_count()
    for _ in make(photos):
        break
    gc.collect()
    assert wait_until(lambda: threading.active_count() == before)


def test_batches_and_loaders_can_be_pickled(photos: ImageFolder) -> None:
    loader = make(photos, shuffle=True)
    first = next(iter(loader))
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own.
    assert copy.state_dict() == loader.state_dict()
    assert next(iter(copy)).epoch == 1
    batch = pickle.loads(pickle.dumps(first))  # noqa: S301 - our own.
    assert type(batch) is ImageBatch
    assert contents([batch]) == contents([first])
    assert batch.path == first.path
    assert "float32[4, 3, 16, 16]" in repr(batch)


def test_batches_move_to_a_device(photos: ImageFolder) -> None:
    loader = ImageLoader(photos, 4, size=16, device="meta")
    batch = next(iter(loader))
    assert (batch.image.device.type, batch.label.device.type, len(batch.path)) == ("meta", "meta", 4)
    assert [stage.name for stage in loader.statistics().stages] == ["src", "load", "transfer", "sink"]
    options: dict[str, Any] = {"size": 16, "device": "meta", "batch_transform": lambda it: {"x": [it.image, it.path]}}
    images, paths = next(iter(ImageLoader(photos, 4, **options)))["x"]
    assert (images.device.type, len(paths)) == ("meta", 4)
    local = next(iter(ImageLoader(photos, 4, size=16)))
    assert local.to("meta").image.device.type == "meta"
    assert local.to("cpu").image is local.image


def test_a_timeout_can_be_read_again(photos: ImageFolder) -> None:
    gate = threading.Event()

    def wait(batch: ImageBatch) -> ImageBatch:
        gate.wait(30)
        return batch

    iterator = iter(make(photos, batch_transform=wait, timeout=0.05))
    with pytest.raises(TimeoutError):
        next(iterator)
    gate.set()
    while True:
        try:
            assert next(iterator).index.tolist() == [0, 1, 2, 3]
            break
        except TimeoutError:
            continue


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": 3}, TypeError, "`source`"),
        ({"source": "photos"}, TypeError, "`source`"),
        ({"source": {"a": 1}}, TypeError, "`source`.*keys"),
        ({"source": []}, ValueError, "`source` must be not empty"),
        ({"batch_size": 0}, ValueError, "`batch_size`"),
        ({"batch_size": 24, "drop_last": True}, ValueError, "leave out everything.*23 samples"),
        ({"size": None}, TypeError, "`size`"),
        ({"size": (1, 2, 3)}, ValueError, "`size`"),
        ({"size": 0}, ValueError, "`size`"),
        ({"size": "64"}, TypeError, "`size` must be a side in pixels"),
        ({"size": (64, "32")}, TypeError, "`size` must be a side in pixels"),
        ({"augment": "none"}, ValueError, "`augment`"),
        ({"options": ImageOptions(8, 8)}, TypeError, "`size`"),
        ({"options": ImageOptions(8, None), "size": None}, ValueError, "`options`"),
        ({"options": 3, "size": None}, TypeError, "`options`"),
        ({"mode": "fit"}, ValueError, "`mode`"),
        ({"dtype": "uint8", "mean": MEAN}, ValueError, "`dtype`"),
        ({"mean": (1, 2)}, ValueError, "`mean`"),
        ({"seed": -1}, ValueError, "`seed`"),
        ({"on_error": "ignore"}, ValueError, "`on_error`"),
        ({"transform": 3}, TypeError, "`transform`"),
        ({"batch_transform": 3}, TypeError, "`batch_transform`"),
        ({"output": "jax"}, ValueError, "`output`"),
        ({"device": "cuda"}, ValueError, "`device`.*tensors"),
        ({"device": "nowhere", "output": "torch"}, ValueError, "`device`"),
        ({"device": 3.5, "output": "torch"}, TypeError, "`device`"),
        ({"rank": 0}, ValueError, "`world_size`"),
        ({"rank": 2, "world_size": 2}, ValueError, "`rank`"),
        ({"num_threads": 0}, ValueError, "`num_threads`"),
        ({"prefetch": 0}, ValueError, "`prefetch`"),
        ({"timeout": "soon"}, TypeError, "`timeout`"),
        ({"shuffle": "yes"}, TypeError, "`shuffle`"),
        (
            {"order": [1, 2]},
            TypeError,
            r"`order` must be .*`take\(epoch, positions\)`.*got \[1, 2\].*For chosen positions",
        ),
        ({"order": SequentialOrder}, TypeError, "`order` must be"),
        ({"order": Backwards(fingerprint=None)}, TypeError, "`order` must be .* a text `fingerprint`"),
        ({"order": 3}, TypeError, r"`order` must be .* an array of positions in the source, got 3 \(.*\)\.$"),
        ({"order": SequentialOrder(3), "shuffle": True}, ValueError, "`shuffle`"),
    ],
)
def test_mistakes_are_explained(
    photos: ImageFolder, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(**{"source": photos, **options})


class Batched(list[Any]):
    """A source that is asked for whole batches."""

    asked: ClassVar[list[list[int]]] = []
    missing = 0

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("one by one")

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.asked.append(indices)
        return [super(Batched, self).__getitem__(index) for index in indices[self.missing :]]


def test_a_batch_is_looked_up_at_once() -> None:
    source = Batched([(make_jpeg(16, 16, seed=number), number) for number in range(5)])
    labels = [label for batch in ImageLoader(source, 2, size=8, output="numpy", num_threads=1) for label in batch.label]
    assert labels == list(range(5))
    assert sorted(source.asked) == [[0, 1], [2, 3], [4]]
    source.missing = 1
    with pytest.raises(RuntimeError, match=r"`Batched\.__getitems__` returned 1 samples for 2 positions"):
        list(ImageLoader(source, 2, size=8, output="numpy", num_threads=1))
