"""Batches of labelled media."""

from __future__ import annotations

from typing import Any, ClassVar

from spdl.dataloader._loader.labelled_batch import LabelledBatch


class ImageBatch(LabelledBatch):
    """A batch of images, as `ImageLoader` yields it: the pair ``image, label`` with more fields.

    Example:
        >>> import numpy as np
        >>> batch = ImageBatch({"image": np.zeros((2, 3, 8, 8)), "label": np.array([0, 1]), "path": ["a", "b"]})
        >>> images, labels = batch
        >>> images is batch.image, labels.tolist(), batch["path"]
        (True, [0, 1], ['a', 'b'])
    """

    medium: ClassVar[str] = "image"
    """The name of the field with the images."""
    image: Any
    """The images, (B, C, H, W) or (B, H, W, C), or with `views` (V, B, ...)."""
    size: Any
    """With ``targets`` alone: the width and height of each original image, turned upright, int64 (B, 2)."""
    geometry: Any
    """With ``targets`` alone: a list with the `Geometry` of each sample, or with `views` such a list for each view."""


class ClipBatch(LabelledBatch):
    """A batch of clips of videos, as `ClipLoader` yields it: the pair ``clip, label`` with more fields.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import ClipBatch
        >>> batch = ClipBatch({"clip": np.zeros((2, 8, 3, 4, 4)), "label": [0, 1], "length": np.array([8, 5])})
        >>> clips, labels = batch
        >>> clips is batch.clip, batch.length.tolist()
        (True, [8, 5])
    """

    medium: ClassVar[str] = "clip"
    """The name of the field with the clips."""
    clip: Any
    """The pictures, (B, N, C, H, W) or (B, N, H, W, C). Places after a short clip hold zeros, unless a `transform`
    changes them."""
    length: Any
    """How many of the N pictures of each clip are its own, int64 (B,)."""
    mask: Any
    """False for the zeros after a short clip, else True, bool (B, N)."""
    window: Any
    """Where each clip begins and ends in its file in seconds, as float64 (B, 2)."""


class SoundBatch(LabelledBatch):
    """A batch of sounds, as `AudioLoader` yields it: the pair ``sound, label`` with more fields.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import SoundBatch
        >>> batch = SoundBatch({"sound": np.zeros((2, 1, 100)), "label": [0, 1], "length": np.array([100, 7])})
        >>> sounds, labels = batch
        >>> sounds is batch.sound, batch.length.tolist()
        (True, [100, 7])
    """

    medium: ClassVar[str] = "sound"
    """The name of the field with the sounds."""
    sound: Any
    """The samples, float32 (B, C, N). Places after a short sound hold zeros."""
    length: Any
    """How many of the N samples of each sound are its own, int64 (B,)."""
    mask: Any
    """False for the zeros after a short sound, else True, bool (B, N)."""
    window: Any
    """Where each sound begins and ends in its file in seconds, as float64 (B, 2)."""
