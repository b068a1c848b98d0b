"""Several views of each image, as self-supervised training takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from spdl._check import positive, refuse
from spdl.dataloader._loader.labelled_batch import LabelledBatch
from spdl.dataloader._media.batches import ImageBatch
from spdl.dataloader._media.image_augment import ImageAugment
from spdl.dataloader._media.media_loader import MediaReader
from spdl.dataloader._media.picture_format import make_options
from spdl.dataloader._media.pixel_changes import (
    changes_pixels,
    check_has_colors,
    make_changes,
    make_eraser,
    view_seed,
)
from spdl.dataloader._media.sample_fields import check_names
from spdl.dataloader._media.windows import find_fault_of_file
from spdl.io import ImageOptions, random_flip, random_resized_crop, to_numpy
from spdl.io._shared import PIXEL_FORMATS, ImageView, load_image_views

Views: TypeAlias = int | Sequence[ImageAugment] | Mapping[str, Sequence[ImageAugment]] | None
"""How many views each image has, how each is varied, or both by the name of their field."""

_IMAGE = "image"


def parse_views(views: Views, augment: ImageAugment | None) -> dict[str, list[ImageAugment]]:
    """Return the views of each field.

    Args:
        views: The loader's argument, not None.
        augment: How the loader varies images; None does not.

    Raises:
        TypeError, ValueError: If an argument is wrong, or one contradicts the other.
    """
    if isinstance(views, int) and not isinstance(views, bool):
        if augment is None:
            accepted = "'train' or an ImageAugment with a number of `views`, which would all be the same"
            refuse(ValueError, "augment", accepted, "eval")
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
        refuse(ValueError, "augment", "left out with `views` that say it themselves", augment)
    check_names("some `views`", parsed, "label", "index", "path")
    return parsed


def _check_group(argument: str, group: Sequence[ImageAugment]) -> list[ImageAugment]:
    for augment in group:
        if augment.mixes:
            accepted = "without `mixup` and `cutmix`, which mix labels"
            refuse(ValueError, argument, accepted, augment)
        if augment.turns or augment.zoom is not None:
            accepted = "without `quarter_turns`, `vertical_flip` and `zoom`, which images without `views` have"
            refuse(ValueError, argument, accepted, augment)
        if augment.size != group[0].size:
            remedy = 'Give those of another size a name of their own: views={"image": [...], "local": [...]}.'
            refuse(ValueError, argument, "views of one size", [it.size for it in group], remedy)
    return list(group)


def make_view(
    options: ImageOptions, augment: ImageAugment, indices: Sequence[int], *, seed: int, epoch: int
) -> ImageView:
    """Return what is drawn for some images.

    Args:
        options: The format of the view.
        augment: How images are varied.
        indices: The position of each image in the source.
        seed: The seed of the view.
        epoch: The number of the epoch.
    """
    crop = None
    if augment.scale is not None:
        crop = random_resized_crop(indices, seed=seed, epoch=epoch, scale=augment.scale, ratio=augment.ratio)
        options = dataclasses.replace(options, mode="stretch")
    flip = random_flip(indices, seed=seed, epoch=epoch, probability=augment.flip) if augment.flip else False
    changed = changes_pixels(augment) or augment.changes_colors
    changes = make_changes(augment, indices, seed=seed, epoch=epoch) if changed else None
    return ImageView(options, crop, flip, changes)


class ViewsReader(MediaReader):
    """Reads several views of each image.

    Args:
        options: How images become an array.
        groups: How the views of each field are varied.
        seed: The seed of random numbers.
    """

    media: ClassVar[str] = "images"
    batch_type: ClassVar[type[LabelledBatch]] = ImageBatch
    column: ClassVar[str] = _IMAGE

    def __init__(self, options: ImageOptions, groups: Mapping[str, list[ImageAugment]], seed: int) -> None:
        for augment in (each for group in groups.values() for each in group):
            check_has_colors(options, augment)
        if options.pix_fmt not in PIXEL_FORMATS:
            refuse(ValueError, "pix_fmt", "rgb24, bgr24 or gray with `views`", options.pix_fmt)
        self._groups = groups
        self._options = {name: _options_of(options, group[0]) for name, group in groups.items()}
        numbers = iter(range(sum(map(len, groups.values()))))
        self._seeds = {name: [view_seed(seed, next(numbers)) for _ in group] for name, group in groups.items()}
        self._erasers = {
            name: [make_eraser(options, augment, seed) for augment, seed in zip(group, self._seeds[name], strict=True)]
            for name, group in groups.items()
        }

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        """Return why a sample's image cannot be read; None if it can."""
        return find_fault_of_file(self.column, columns[self.column][place], files=True)

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        groups = [
            [
                make_view(self._options[name], augment, columns["index"], seed=seed, epoch=epoch)
                for augment, seed in zip(group, self._seeds[name], strict=True)
            ]
            for name, group in self._groups.items()
        ]
        arrays, failures = load_image_views(columns[self.column], groups, num_threads=num_threads)
        # Samples come first until the batch is whole: some may be left out or replaced.
        return {
            name: to_numpy(array).swapaxes(0, 1) for name, array in zip(self._groups, arrays, strict=True)
        }, failures

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:
        """Put the views first, and erase parts of them if that was asked for."""
        import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

        views = {name: np.ascontiguousarray(fields[name].swapaxes(0, 1)) for name in self._groups}
        for name, erasers in self._erasers.items():
            for images, eraser in zip(views[name], erasers, strict=True):
                if eraser is not None:
                    eraser.erase(images, fields["index"], epoch)
        return {**fields, **views}


def _options_of(options: ImageOptions, augment: ImageAugment) -> ImageOptions:
    if augment.size is None:
        return options
    sized = make_options(augment.size, None, {})
    return dataclasses.replace(options, width=sized.width, height=sized.height)
