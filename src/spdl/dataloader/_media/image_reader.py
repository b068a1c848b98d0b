"""Reads images, and what moves with them: one view of each, or several from one decode."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from spdl.dataloader._loader.batches import ImageBatch, LabelledBatch
from spdl.dataloader._media.geometry import GeometryRule, draws_places
from spdl.dataloader._media.image_augment import ImageAugment, ImageMixer
from spdl.dataloader._media.media_loader import MediaReader
from spdl.dataloader._media.picture_format import PictureFormat, make_options
from spdl.dataloader._media.pixel_changes import (
    ImageEraser,
    changes_pixels,
    check_has_colors,
    make_changes,
    view_seed,
)
from spdl.dataloader._media.sample_fields import check_names
from spdl.dataloader._media.target_reader import TargetReader, views_first
from spdl.dataloader._media.windows import find_fault_of_file
from spdl.io import ImageOptions, RandomResizedCrop, random_flip, random_resized_crop, to_numpy
from spdl.io._shared import ImageView, Place, load_image_views

_LOG = logging.getLogger("spdl.dataloader")

# Fields that have no places in the image, or are the image.
_PLACELESS = {"image", "label", "path", "index"}


class ImageReader(MediaReader):
    """Reads images, varied or not: the views in the `groups`, which are the fields of images.

    With `several`, fields have an axis of views. `final` is the format that images get after a transform. Where images
    go is of interest only if there are `targets`, which move with them.
    """

    media: ClassVar[str] = "images"
    batch_type: ClassVar[type[LabelledBatch]] = ImageBatch
    column: ClassVar[str] = "image"

    def __init__(
        self,
        options: ImageOptions,
        groups: Mapping[str, Sequence[ImageAugment]],
        seed: int,
        *,
        several: bool,
        final: PictureFormat | None,
        targets: TargetReader | None,
        mixer: ImageMixer | None,
    ) -> None:
        # Otherwise native code draws crops when it knows the size, so that it opens each file once.
        placed = targets is not None or any(draws_places(each) for group in groups.values() for each in group)
        seen = None if final is None else final.seen
        numbers = iter(range(sum(map(len, groups.values()))))
        self._groups = {
            name: [_View(options, seen, each, view_seed(seed, next(numbers)), placed=placed) for each in group]
            for name, group in groups.items()
        }
        self._several = several
        self._final = final
        self.targets = targets
        self._mixer = mixer
        self._told: dict[str, object] = {}

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        return find_fault_of_file(self.column, columns[self.column][place], files=True)

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        check_names(
            f"with `views`, some fields of sample {columns['index'][0]}", columns, *self._groups.keys() - {"image"}
        )
        if self.targets is not None:
            self.targets.check(columns)
        else:
            self._tell_of_unmoved(columns)
        groups = [[view.draw(columns["index"], epoch) for view in group] for group in self._groups.values()]
        loaded = load_image_views(columns[self.column], groups, num_threads=num_threads)
        # Samples come first until the batch is whole: some may be left out or replaced.
        fields = {
            name: array.swapaxes(0, 1) if self._several else array[0]
            for name, array in zip(self._groups, map(to_numpy, loaded.arrays), strict=True)
        }
        failures = dict(loaded.failures)
        if self.targets is not None:
            placed = {
                name: [
                    (view.rule, view.with_moves(each, columns["index"], own))
                    for view, each, own in zip(group, views, drawn, strict=True)
                ]
                for (name, group), views, drawn in zip(self._groups.items(), groups, loaded.places, strict=True)
            }
            moved, reasons = self.targets.read(columns, placed, loaded, num_threads)
            fields |= moved
            failures = {**reasons, **failures}
        return fields, sorted(failures.items())

    def _tell_of_unmoved(self, columns: Mapping[str, list[Any]]) -> None:
        """Log once which fields may be places in an image that is cropped and resized, as boxes and masks are."""
        for name in columns.keys() - _PLACELESS:
            value = columns[name][0]
            shape = getattr(value, "shape", ())
            rows = isinstance(value, list | tuple) and len(value) and isinstance(value[0], list | tuple)
            mark = object()
            # Several threads read; one of them puts its mark there.
            if (rows or len(shape) > 1) and self._told.setdefault(name, mark) is mark:
                _LOG.warning(
                    "The field %r of the samples stays as it is, while ImageLoader crops or resizes their images: if "
                    "it has places in them, such as boxes or a mask, `targets` moves it with them",
                    name,
                )

    def convert(
        self,
        results: list[Any],
        fields: dict[str, Any],  # noqa: ARG002 - of the base.
        names: Sequence[str],
        num_threads: int,
        *,
        alone: bool,
    ) -> Any:
        assert self._final is not None
        return self._final.write(results, names, num_threads=num_threads, alone=alone)

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:
        for name, group in self._groups.items():
            if self._several:
                fields = {**fields, name: views_first(fields[name])}
            for view, images in zip(group, fields[name] if self._several else [fields[name]], strict=True):
                if view.eraser is not None:
                    view.eraser.erase(images, fields["index"], epoch)
        if self.targets is not None:
            return self.targets.finish(fields)
        return fields if self._mixer is None else self._mixer.mix(fields, epoch)


class _View:
    """How one of the views of images is varied. `seen` is the format that a transform gets; None without one."""

    def __init__(
        self, options: ImageOptions, seen: ImageOptions | None, augment: ImageAugment, seed: int, *, placed: bool
    ) -> None:
        check_has_colors(options, augment)
        if augment.size is not None:
            sized = make_options(augment.size, None, {})
            options = dataclasses.replace(options, width=sized.width, height=sized.height)
        self.eraser = ImageEraser(options, augment, seed) if augment.erase else None
        read = options if seen is None else seen
        self.rule = GeometryRule(read, augment, seed)
        self._placed = placed
        # A random crop has its own shape, and fills the size.
        self._options = read if augment.scale is None else dataclasses.replace(read, mode="stretch")
        self._augment = augment
        self._seed = seed

    def draw(self, indices: Sequence[int], epoch: int) -> ImageView:
        augment, seed = self._augment, self._seed
        changes = None
        if changes_pixels(augment) or augment.changes_colors:
            changes = make_changes(augment, indices, seed=seed, epoch=epoch)
        if self._placed:
            return ImageView(self._options, draw=partial(self.rule.draw, indices, epoch), changes=changes)
        crop: RandomResizedCrop | None = None
        if augment.scale is not None:
            crop = random_resized_crop(indices, seed=seed, epoch=epoch, scale=augment.scale, ratio=augment.ratio)
        flip: bool | list[bool] = False
        if augment.flip:
            flip = random_flip(indices, seed=seed, epoch=epoch, probability=augment.flip)
        return ImageView(self._options, crop, flip, changes=changes)

    def with_moves(self, view: ImageView, indices: Sequence[int], places: Sequence[Place]) -> Sequence[Place]:
        """Return places with the moves of the policy, which belong to the changes of images."""
        if self._augment.policy is None or view.changes is None:
            return places
        size = view.options.width or 0, view.options.height or 0
        moves = [view.changes.moves(index, *size) for index in indices]
        return [place._replace(moves=(*place.moves, *own)) for place, own in zip(places, moves, strict=True)]
