"""Reads the images of a batch by one native call."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from spdl.dataloader._media.batch import ImageBatch
from spdl.dataloader._media.image_mixer import ImageMixer
from spdl.dataloader._media.media_reader import MediaReader
from spdl.dataloader._media.windows import find_fault_of_file
from spdl.io import load_image_batch, random_color_jitter, random_flip, random_resized_crop, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spdl.dataloader._media.batch import LabelledBatch
    from spdl.dataloader._media.image_augment import ImageAugment
    from spdl.dataloader._media.picture_format import PictureFormat
    from spdl.io import ImageOptions, RandomColorJitter, RandomResizedCrop

__all__ = ["ImageReader"]


class ImageReader(MediaReader):
    """Reads images of one size, varied or not.

    Args:
        options: How they become an array.
        augment: How they are varied; None does not.
        seed: The seed of random numbers.
        num_classes: The number of classes, if the source knows it.
        final: The format that they get after a transform; None without one.
    """

    media: ClassVar[str] = "images"
    batch_type: ClassVar[type[LabelledBatch]] = ImageBatch
    column: ClassVar[str] = "image"

    def __init__(
        self,
        options: ImageOptions,
        augment: ImageAugment | None,
        seed: int,
        num_classes: int | None,
        final: PictureFormat | None,
    ) -> None:
        self._augment = augment
        self._seed = seed
        self._mixer = None if augment is None or not augment.mixes else ImageMixer(options, augment, seed, num_classes)
        self._final = final
        read = options if final is None else final.seen
        # A random crop has a shape of its own, and fills the size.
        self._options = read if augment is None or augment.scale is None else dataclasses.replace(read, mode="stretch")

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        """Return why a sample's image is no input; None if it is one."""
        return find_fault_of_file(self.column, columns[self.column][place], files=True)

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load the images in the column ``image``."""
        crop: RandomResizedCrop | None = None
        flip: bool | list[bool] = False
        jitter: RandomColorJitter | None = None
        augment = self._augment
        if augment is not None:
            indices = columns["index"]
            if augment.scale is not None:
                crop = random_resized_crop(
                    indices, seed=self._seed, epoch=epoch, scale=augment.scale, ratio=augment.ratio
                )
            if augment.flip:
                flip = random_flip(indices, seed=self._seed, epoch=epoch, probability=augment.flip)
            if augment.changes_colors:
                jitter = random_color_jitter(
                    indices,
                    seed=self._seed,
                    epoch=epoch,
                    brightness=augment.brightness,
                    contrast=augment.contrast,
                    saturation=augment.saturation,
                    hue=augment.hue,
                )
        buffer = load_image_batch(
            columns["image"],
            options=self._options,
            crop=crop,
            flip=flip,
            jitter=jitter,
            num_threads=num_threads,
            on_error="zero",
        )
        return {"image": to_numpy(buffer)}, [(failure.index, failure.reason) for failure in buffer.failures]

    def convert(self, results: list[Any], fields: dict[str, Any], names: Sequence[str], num_threads: int) -> Any:  # noqa: ARG002 - of the base.
        """Give images the values, the dtype and the layout of batches."""
        assert self._final is not None
        return self._final.write(results, names, num_threads=num_threads)

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:
        """Mix the images and labels of a batch, if they are to be mixed."""
        return fields if self._mixer is None else self._mixer.mix(fields, epoch)
