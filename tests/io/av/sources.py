"""Pictures and samples that the tests' clips are encoded from. The same arguments give the same values everywhere.

Each picture carries its number in eight black or white blocks along its top, which can still be read after a lossy
codec, a change of colours or a resize. So a test knows which picture of a clip it has got without another decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]

BITS = 8
# Of the range of 8 bits. Video leaves room below 16 and above 235.
_BLACK, _NEUTRAL, _WHITE = 32, 128, 220
# The share of the height that the blocks of the number take.
_STRIP = 4

# For each pixel format: bits, and by how much each plane after the first is smaller across and down.
_FORMATS = {
    "gray": (8, ()),
    "gray16le": (16, ()),
    "yuv420p": (8, ((2, 2), (2, 2))),
    "yuv422p": (8, ((2, 1), (2, 1))),
    "yuv444p": (8, ((1, 1), (1, 1))),
    "yuv411p": (8, ((4, 1), (4, 1))),
    "yuv410p": (8, ((4, 4), (4, 4))),
    "yuva420p": (8, ((2, 2), (2, 2), (1, 1))),
    "yuv420p10le": (10, ((2, 2), (2, 2))),
    "yuv422p10le": (10, ((2, 1), (2, 1))),
    "yuv444p10le": (10, ((1, 1), (1, 1))),
    "yuv420p12le": (12, ((2, 2), (2, 2))),
    "gbrp": (8, ((1, 1), (1, 1))),
}


@dataclass(frozen=True)
class Pictures:
    """A sequence of raw pictures.

    Attributes:
        pix_fmt: FFmpeg's name of the pixel format.
        rate: The number of pictures in a second, as a fraction that FFmpeg reads.
        first: The number of the first picture.
        changes: Whether details change from picture to picture, as those of a film do.
    """

    width: int = 96
    height: int = 64
    count: int = 50
    pix_fmt: str = "yuv420p"
    rate: str = "25"
    first: int = 0
    changes: bool = True

    def planes(self, position: int) -> list[AnyArray]:
        """Return the planes (height, width) of a picture."""
        bits, smaller = _FORMATS[self.pix_fmt]
        number = self.first + position
        planes = [self._plane(number, plane, by) for plane, by in enumerate([(1, 1), *smaller])]
        for index, plane in enumerate(planes):
            height, width = plane.shape
            strip = plane[: -(-height // _STRIP)]
            strip[:] = _NEUTRAL
            for bit in range(BITS if index == 0 or self.pix_fmt == "gbrp" else 0):
                left, right = bit * width // BITS, (bit + 1) * width // BITS
                strip[:, left:right] = _WHITE if number >> bit & 1 else _BLACK
        if bits == 8:
            return [plane.astype(np.uint8) for plane in planes]
        # Values that only the greater depth has.
        return [(plane.astype(np.uint16) << (bits - 8)) + (number + 1) % (1 << (bits - 8)) for plane in planes]

    def raw(self) -> bytes:
        """Return all pictures as FFmpeg's "rawvideo" has them."""
        return b"".join(plane.tobytes() for index in range(self.count) for plane in self.planes(index))

    def packed(self) -> AnyArray:
        """Return the pictures with the rows of 4:2:0 planes one below the other, (N, 1, 3 * height / 2, width)."""
        if self.pix_fmt != "yuv420p" or self.width % 2 or self.height % 2:
            raise ValueError("only yuv420p of even width and height is one block of rows")
        return np.frombuffer(self.raw(), np.uint8).reshape(self.count, 1, self.height * 3 // 2, self.width)

    def _plane(self, number: int, plane: int, by: tuple[int, int]) -> AnyArray:
        width, height = -(-self.width // by[0]), -(-self.height // by[1])
        y, x = np.mgrid[0:height, 0:width]
        x, y = x * by[0], y * by[1]
        moved = number if self.changes else 0
        # Integers only: sines of another processor may differ in the last bit.
        slope = (3 * x + (5 + plane) * y + (7 - 2 * plane) * moved) % 256
        waves = np.abs(slope - 128)
        texture = (x * 7919 ^ y * 104729 ^ plane * 31) % 17
        box = (np.abs(x - 4 * moved % self.width) < self.width // 8) & (np.abs(y - self.height // 2) < self.height // 8)
        plain: AnyArray = np.where(box, 60 + 50 * plane, 48 + waves + texture)
        return plain


def read_number(picture: AnyArray) -> int:
    """Return the number of a picture (height, width) or (height, width, channels)."""
    gray = picture if picture.ndim == 2 else picture[..., :3].mean(axis=-1)
    height, width = gray.shape
    rows = gray[height // _STRIP // 4 : max(height // _STRIP * 3 // 4, 1)]
    if gray.dtype == np.uint16:
        raise TypeError("the number can be read from pictures of 8 bits only")
    number = 0
    for bit in range(BITS):
        left, right = bit * width // BITS, (bit + 1) * width // BITS
        inner = (right - left) // 4
        if rows[:, left + inner : right - inner].mean() > _NEUTRAL:
            number |= 1 << bit
    return number


@dataclass(frozen=True)
class Sound:
    """A piece of audio of several tones that rise, other ones in each channel."""

    rate: int = 48000
    channels: int = 2
    seconds: float = 2.0
    tone: int = 440

    @property
    def count(self) -> int:
        """The number of samples in each channel."""
        return round(self.rate * self.seconds)

    def samples(self) -> npt.NDArray[np.float64]:
        """Return the samples (count, channels), from -0.8 to 0.8, as multiples of 2**-23."""
        time = np.arange(self.count)[:, None] / self.rate
        channel = np.arange(self.channels)[None]
        rising = np.sin(2 * np.pi * (self.tone * (1 + channel / 4) + 200 * time) * time)
        beats = np.sin(2 * np.pi * 3 * (channel + 1) * time)
        whole: npt.NDArray[np.float64] = np.round((0.6 * rising + 0.2 * beats) * 2**23) / 2**23
        return whole

    def as_dtype(self, dtype: str) -> AnyArray:
        """Return the samples as integers or floats of this NumPy type. "i4" holds only 24 bits, the upper ones."""
        samples = self.samples()
        if dtype.startswith("f"):
            return samples.astype(dtype)
        if dtype == "u1":
            return (np.round(samples * 127) + 128).astype("u1")
        if dtype == "i2":
            return np.round(samples * 32767).astype("i2")
        if dtype == "i4":
            return (np.round(samples * 2**23).astype("i4")) << 8
        raise ValueError(f"no samples of type {dtype!r}")


def flashes(pictures: Pictures, every: int, length: int) -> list[AnyArray]:
    """Return gray pictures, dark but for the first `length` ones of each `every`, which are bright."""
    size = pictures.height, pictures.width
    return [np.full(size, 220 if index % every < length else 30, np.uint8) for index in range(pictures.count)]


def beeps(sound: Sound, every: int, length: int) -> AnyArray:
    """Return samples (count, channels) of 16 bits, silent but for the first `length` ones of each `every`."""
    index = np.arange(sound.count)[:, None]
    tone = np.round(20000 * np.sin(2 * np.pi * 1000 * index / sound.rate)) * (index % every < length)
    return np.repeat(tone, sound.channels, axis=1).astype("i2")
