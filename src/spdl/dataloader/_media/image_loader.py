"""A ready-made loader of labelled images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from spdl._check import positive, refuse
from spdl._not_here import MEDIA_WORDS, refuses
from spdl.dataloader._loader.batches import ImageBatch
from spdl.dataloader._loader.epoch_loader import pick
from spdl.dataloader._loader.sample_loader import SHARED_BY_SAMPLES, OnError
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.image_augment import ImageAugment, ImageMixer
from spdl.dataloader._media.image_reader import ImageReader
from spdl.dataloader._media.media_loader import MediaLoader, Pad
from spdl.dataloader._media.picture_format import Interpolation, PictureFormat, make_options
from spdl.dataloader._media.sample_fields import Ragged, check_names
from spdl.dataloader._media.target_reader import TargetReader
from spdl.dataloader._media.targets import Mask, Target
from spdl.io import ImageOptions
from spdl.source import CocoDetection, EpochOrder, VOCDetection

Augment: TypeAlias = Literal["train", "eval"] | ImageAugment
Views: TypeAlias = int | Sequence[ImageAugment] | Mapping[str, Sequence[ImageAugment]] | None
"""How many views each image has, how each is varied, or both by the name of their field."""

_IMAGE = "image"


class ImageLoader(MediaLoader[ImageBatch]):
    """A loader of labelled images: shuffled, augmented, normalised, shared among ranks, in batches.

    Each loop over it is an epoch. A batch is an `ImageBatch`: it unpacks as images and labels, and has more fields. One
    native call reads, decodes, crops, resizes, flips and normalises all images of a batch, without the GIL; with a
    `transform`, a second call normalises what it returned. Batches come in a fixed order, and with the same seed they
    are the same, whatever the number of threads.

    If torch.distributed is initialised, or torchrun has set ``RANK`` and ``WORLD_SIZE``, each process gets its part:
    one block of each step's images. All ranks take equally many steps.

    Args:
        source: The samples: an `spdl.source.ImageFolder` or `spdl.source.ImageList`, or any sequence whose items are
            pairs (image, label) or records with a field ``image`` and, as they like, ``label``, ``path`` and others.
            An image is a path, or the bytes of a file. Several threads look samples up at once.
        batch_size: The images of a batch of one rank.
        size: The size of the images in pixels: one side of a square, or width and height.
        augment: ``"eval"`` does not vary the images. ``"train"`` takes a random crop and flips half of the images. An
            `ImageAugment` says more precisely how to vary them.
        shuffle: Whether each epoch has its own order.
        order: Your own order instead: an `spdl.source.EpochOrder`. Its length is the length of an epoch, and it may
            take some samples more often than others.
        seed: The seed of the order and of all augmentation, from 0 to 2**64 - 1: another run has another one.
        drop_last: Whether to leave out the images at the end of an epoch that fill no batch on all ranks. If not, the
            ranks share them evenly, and if there are fewer images than ranks, some get the same image.
        even_batches: Whether some do, so that all ranks take equally many steps, as training needs. If not, no image
            comes twice, and ranks may take one step less than others: for validation, where no rank waits for another
            in a step. With ``on_error="skip"`` they may then take still fewer, and are at different places after
            equally many batches, so the state of each is for that rank alone.
        mode: How an image that is not cropped at random gets its size: ``"crop"`` covers it and cuts off the rest,
            ``"pad"`` shows the whole image, with `pad_value` around it, ``"stretch"`` fills it. None is ``"crop"``.
        interpolation: The filter of the resize; see `spdl.io.load_image_batch`. None is ``"bilinear"``.
        layout: ``"NCHW"`` or ``"NHWC"``. None is ``"NCHW"``.
        dtype: ``"float32"`` or ``"float16"``, from 0 to 1; or ``"uint8"``. None is ``"float32"``.
        mean, std: For each channel a number to subtract from values from 0 to 1, and then a divisor. None is 0 and 1.
        views: Several views of each image, which are drawn independently from one decode. A number takes as many by
            `augment`; a sequence has an `ImageAugment` for each view. The first view is what a loader without views
            would give. ``batch.image`` is then (V, B, C, H, W), so ``for (first, second), labels in loader`` works.
            Views of other sizes have other names: ``views={"image": [...], "local": [...]}``, where the views of
            ``"local"`` have the same ``ImageAugment(size=...)``, and become ``batch.local``. With `views`, `transform`
            is None, and images are not mixed; `batch_transform` gets all views. `targets` move with each view. None
            loads each image once, as (B, C, H, W).
        pad_value: The colour around an image that does not fill its size, from 0 to 255: a number, or one for each
            channel. None is 0, black.
        exif: Whether to turn photos upright as their EXIF data says; `targets` belong to photos of this orientation.
            None is True.
        options: A record of `spdl.io.ImageOptions` instead of `size`, `mode`, `interpolation`, `layout`, `dtype`,
            `mean`, `std`, `pad_value` and `exif`. It has more fields, and other defaults: uint8 and ``"NHWC"``, say.
        transform: Applied to each image of a batch, after `augment` and before `mean`, `std`, `dtype` and `layout`. It
            gets uint8: a tensor (C, H, W), as torchvision's v2 transforms take it, or an array (H, W, C) with
            ``output="numpy"``. It returns an image like that, or several stacked. Images of uint8 are then scaled to
            values from 0 to 1; floats are taken to be scaled already. Without `mean` and `std`, other numbers and
            arrays, such as features, stay unchanged unless they are uint8; with ``dtype="uint8"``, any other object
            does. Everything else is an error that names the sample: floats that are NaN or infinite, too, and images
            without pixels. A tuple or a record, which is a mapping, a named tuple or a dataclass, is collated part by
            part: ``batch.image`` is then a tuple or a record of the same type, in which each part is what a transform
            that returned it alone would give; only parts that are no images may stay beside `mean` and `std`. If the
            function has a parameter ``targets``, it also gets the sample's targets by their names, as the batch has
            them, and returns a pair: the image, and a mapping of all these targets, in which further names become
            fields of the batch. Boxes are clipped to the returned image, and dropped as `Boxes` says. See
            `TorchvisionTransform` and `AlbumentationsTransform`. If the function has a parameter that is annotated
            with `spdl.pipeline.ItemContext`, it also gets that; its ``key(seed)`` is the seed to take for random
            numbers. It runs in the loader's threads, so it should be quick or release the GIL.
        batch_transform: Applied to each finished batch, after `transform`, `mean`, `std` and mixup. The loop gets its
            result. To change colours of a whole batch, leave `mean` and `std` out, and normalise there.
        targets: Which fields of samples are masks, boxes, points and outlines in the image, and which values belong to
            them: a mapping from names to `Mask`, `Boxes`, `Keypoints`, `Polygons`, `InstanceMasks` and `Values`. They
            move with the image through `augment` and `mode`. A `transform` without a parameter ``targets`` must leave
            every pixel in its place. Batches then also have ``size``, the width and height of each original image,
            int64 (B, 2), and ``geometry``, a list of `Geometry`, which maps coordinates of the image before a
            `transform` back to the original; with an empty mapping these alone. Samples whose targets make no sense are
            failures. Not with mixup or CutMix. With `views`, each of these fields but ``size`` has one more axis, of
            views, in front: ``batch.mask`` is (V, B, height, width), and others are lists with what each view has, such
            as ``batch.boxes[view][sample]``. Those of views by another name begin with it: ``batch.local_boxes``.
        ragged: The layout of targets that have a different number of rows in each sample, for all, or by the names of
            fields. ``"list"`` is a list of arrays; ``"pad"`` one array (B, N, ...), padded to the most rows in the
            batch, with a field ``NAME_mask``, bool (B, N), that is False where padding is; ``"offsets"`` a `Jagged`:
            the rows of all samples one after the other, and where each sample's begin. With `views`, arrays of padded
            rows are (V, B, N, ...), and their masks (V, B, N).
        pad: Names of further fields that are arrays or lists of numbers of different lengths, such as the tokens of
            texts: each becomes one array (B, T), padded with zeros, and a field ``NAME_mask`` says where its values
            are. A mapping gives each name arguments of `spdl.io.pad`: ``{"tokens": {"value": 1, "multiple": 8}}``.
        output: ``"torch"`` makes tensors, ``"numpy"`` arrays.
        device: The device for the loop's tensors, such as ``"cuda"``: this process's GPU. They are copied there while
            others are made. None leaves them in main memory.
        on_error: How to treat images that cannot be loaded. ``"raise"`` raises in the loop. ``"skip"`` leaves them
            out: all fields of a batch have only the others. ``"refill"`` puts other images of the source, or of
            `order`, in their place, so all batches stay full; which ones depends on `seed`, epoch and position
            alone. Both log them, and list them in ``batch.failures`` and ``loader.failures``. With both, a sample for
            which the source raises an exception or returns None is one that cannot be loaded. Errors not tied to one
            sample are always raised: an OSError of the system or a store, unless a file is missing; MemoryError,
            ImportError and NameError; and an archive that has changed since the source was made.
        rank, world_size: This process's rank, and their number. None asks torch.distributed, then the environment.
        num_threads: How many threads load. None takes the cores that this process may use, bounded by its control
            groups, and divided by ``LOCAL_WORLD_SIZE``. Up to four batches are made at once; threads beyond four share
            the images of each batch. Look-ups in `source`, `transform` and `batch_transform`
            do not gain from these: they run in one thread for each batch.
        prefetch: How many finished batches wait for the loop. Up to four more are being made, and a greater number does
            not change that: it evens out batches that take unequally long.
        timeout: Seconds to wait for a batch before TimeoutError, above 0. None waits as long as it takes.

    Attributes:
        dataset, batch_size, drop_last: The arguments; the first is the source.

    Raises:
        ImportError: If a device is given and PyTorch is not installed; without a device, when the first batch is read.
        TypeError, ValueError: If an argument is not as described, or nothing would be loaded; the message names it.

    Example:
        >>> from spdl.dataloader import ImageLoader
        >>> photo = b"P6 4 3 255 " + bytes(4 * 3 * 3)
        >>> loader = ImageLoader([(photo, 0), (photo, 1), (photo, 0)], batch_size=2, size=64, output="numpy")
        >>> for images, labels in loader:
        ...     print(images.shape, labels)
        (2, 3, 64, 64) [0 1]
        (1, 3, 64, 64) [0]
    """

    @refuses({**MEDIA_WORDS, "image_size": "use `size`"})
    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        *,
        size: int | tuple[int, int] | None = None,
        augment: Augment = "eval",
        views: Views = None,
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        mode: Literal["pad", "stretch", "crop"] | None = None,
        interpolation: Interpolation | None = None,
        layout: Literal["NHWC", "NCHW"] | None = None,
        dtype: Literal["uint8", "float16", "float32"] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        pad_value: int | Sequence[int] | None = None,
        exif: bool | None = None,
        options: ImageOptions | None = None,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[ImageBatch], Any] | None = None,
        targets: Mapping[str, Target | Mask] | None = None,
        ragged: Ragged = "list",
        pad: Pad = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        given = {
            "mode": mode,
            "interpolation": interpolation,
            "layout": layout,
            "dtype": dtype,
            "mean": mean,
            "std": std,
            "pad_value": pad_value,
            "exif": exif,
        }
        self.options = make_options(size, options, given)
        varied = _make_augment(augment)
        several = views is not None
        if several and transform is not None:
            remedy = "Use `batch_transform`, which gets all views of a batch."
            refuse(ValueError, "transform", "None with `views`", transform, remedy)
        groups = {"image": [varied or _STILL]} if views is None else _parse_views(views, varied)
        moved = mixer = None
        if targets is not None:
            moved = TargetReader(
                targets, ragged, self.options, output=output, others=pad, groups=groups, several=several
            )
        else:
            _refuse_unmoved(source)
        if targets is None and ragged != "list":
            refuse(ValueError, "ragged", "left out without `targets`", ragged, "It is the layout of these.")
        if not several and varied is not None and varied.mixes:
            if targets is not None:
                remedy = "Only images and labels are mixed."
                refuse(ValueError, "targets", "left out with `mixup` and `cutmix`", targets, remedy)
            mixer = ImageMixer(self.options, varied, seed, _count_classes(source))
        final = None if transform is None else PictureFormat(self.options, output)
        reader = ImageReader(self.options, groups, seed, several=several, final=final, targets=moved, mixer=mixer)
        super().__init__(
            source,
            batch_size,
            reader,
            transform=transform,
            pad=pad,
            **pick(locals(), SHARED_BY_SAMPLES),
        )


def _refuse_unmoved(source: object) -> None:
    fields: tuple[str, ...] = ("boxes",) if isinstance(source, VOCDetection) else ()
    if isinstance(source, CocoDetection):
        fields = source.fields
    for name, target in (("boxes", "Boxes()"), ("keypoints", "Keypoints(...)"), ("segmentation", "InstanceMasks()")):
        if name in fields:
            raise TypeError(
                f"`targets` must say how {name!r} of {type(source).__name__} move with their images: pass "
                f"targets={{{name!r}: {target}, ...}}, or leave them out of the source."
            )


def _count_classes(source: object) -> int | None:
    classes: Any = getattr(source, "classes", None)
    return len(classes) if hasattr(type(classes), "__len__") else None


# Of "eval".
_STILL = ImageAugment(scale=None, flip=0)


def _make_augment(augment: Augment) -> ImageAugment | None:
    if isinstance(augment, ImageAugment):
        if augment.size is not None:
            refuse(ValueError, "augment.size", "None but in `views`: the loader's `size` says it", augment.size)
        return augment
    if augment not in ("train", "eval"):
        refuse(ValueError, "augment", "'train', 'eval' or an ImageAugment", augment)
    return ImageAugment() if augment == "train" else None


def _parse_views(views: Views, augment: ImageAugment | None) -> dict[str, list[ImageAugment]]:
    if isinstance(views, int) and not isinstance(views, bool):
        if augment is None:
            accepted = "'train' or an ImageAugment with a number of `views`"
            refuse(ValueError, "augment", accepted, "eval", "Without it, all views would be the same.")
        return {_IMAGE: _check_group("augment", [augment] * positive("views", views))}
    accepted = 'an int, a sequence of ImageAugment, or such sequences by name: {"image": [...], "local": [...]}'
    groups: Any = views if isinstance(views, Mapping) else {_IMAGE: views}
    if _IMAGE not in groups:
        refuse(
            ValueError, "views", "a mapping with the key 'image', the field that a batch unpacks first", list(groups)
        )
    parsed = {}
    for name, group in groups.items():
        named = isinstance(name, str) and name.isidentifier()
        if not (named and isinstance(group, Sequence) and group and all(isinstance(it, ImageAugment) for it in group)):
            refuse(TypeError, "views", accepted, views)
        parsed[name] = _check_group(f"views[{name!r}]" if isinstance(views, Mapping) else "views", group)
    if augment is not None:
        refuse(ValueError, "augment", "left out with such `views`", augment, "Each of them is an ImageAugment.")
    check_names("some `views`", parsed, "label", "index", "path")
    return parsed


def _check_group(argument: str, group: Sequence[ImageAugment]) -> list[ImageAugment]:
    for augment in group:
        if augment.mixes:
            remedy = "Mix the images of a whole batch in `batch_transform`."
            refuse(ValueError, argument, "without `mixup` and `cutmix`", augment, remedy)
        if augment.size != group[0].size:
            remedy = 'Give those of another size a name of their own: views={"image": [...], "local": [...]}.'
            refuse(ValueError, argument, "views of one size", [it.size for it in group], remedy)
    return list(group)
