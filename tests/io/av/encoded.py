"""How the tests' clips are made: what is in one, and the ffmpeg command that encodes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.sources import Pictures, Sound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# FFmpeg's names of raw samples of these NumPy types.
RAW_FORMATS = {"u1": "u8", "i2": "s16le", "i4": "s32le", "f4": "f32le", "f8": "f64le"}
_EXACT = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact")


@dataclass(frozen=True)
class Clip:
    """A clip that can be made.

    Attributes:
        make: Makes the file. It skips the test if the ffmpeg command lacks an encoder.
        pictures: The pictures that were encoded, if a video is in it.
        sound: The sound that was encoded, if audio is in it.
        dtype: The NumPy type of the samples that were encoded.
        lossless: Whether the decoded values are those that were encoded, bit by bit.
        whole: Whether each picture is there once, in order. Clips that are cut, broken or strange are not.
    """

    make: Callable[[Path], object]
    pictures: Pictures | None = None
    sound: Sound | None = None
    dtype: str = "i2"
    lossless: bool = False
    whole: bool = True


def video(
    encoder: str | Sequence[str], *options: object, pictures: Pictures | None = None, lossless: bool = False
) -> Clip:
    """Return a clip with one video stream, of the first of these encoders that there is."""
    shown = pictures or Pictures()

    def make(path: Path) -> None:
        name = need_encoder(*([encoder] if isinstance(encoder, str) else encoder))
        encode(path, ["-c:v", name, *_speed(name), *options], pictures=shown)

    return Clip(make, shown, lossless=lossless)


def audio(
    encoder: str, *options: object, sound: Sound | None = None, dtype: str = "i2", lossless: bool = False
) -> Clip:
    """Return a clip with one audio stream."""
    heard = sound or Sound()

    def make(path: Path) -> None:
        encode(path, ["-c:a", need_encoder(encoder), *options], sounds=[heard], dtype=dtype)

    return Clip(make, None, heard, dtype, lossless)


def both(video_options: Sequence[object], audio_options: Sequence[object], *sounds: Sound) -> Clip:
    """Return a clip with a video stream and an audio stream for each of the sounds."""
    shown, heard = Pictures(), sounds or (Sound(),)

    def make(path: Path) -> None:
        need_encoder(str(video_options[0]))
        need_encoder(str(audio_options[0]))
        encode(path, ["-c:v", *video_options, "-c:a", *audio_options], pictures=shown, sounds=heard)

    return Clip(make, shown, heard[0])


def encode(
    path: Path,
    options: Sequence[object],
    *,
    pictures: Pictures | None = None,
    sounds: Sequence[Sound] = (),
    dtype: str = "i2",
) -> None:
    """Encode raw pictures as the first stream, and sounds as those after it."""
    with TemporaryDirectory() as name:
        inputs: list[object] = []
        if pictures is not None:
            raw = Path(name) / "pictures"
            raw.write_bytes(pictures.raw())
            inputs += raw_pictures(pictures, raw)
        for number, sound in enumerate(sounds):
            raw = Path(name) / f"sound{number}"
            raw.write_bytes(sound.as_dtype(dtype).tobytes())
            inputs += ["-f", RAW_FORMATS[dtype], "-ar", sound.rate, "-ac", sound.channels, "-i", raw]
        count = len(sounds) + (pictures is not None)
        maps = [it for index in range(count) for it in ("-map", index)]
        run_ffmpeg(*inputs, *maps, "-threads", 1, *_EXACT, *options, path)


def raw_pictures(pictures: Pictures, file: Path) -> list[object]:
    """Return the options that make a file of raw pictures an input of the ffmpeg command."""
    size = f"{pictures.width}x{pictures.height}"
    return ["-f", "rawvideo", "-pix_fmt", pictures.pix_fmt, "-s", size, "-r", pictures.rate, "-i", file]


def copied(path: Path, source: Path, *options: object, before: Sequence[object] = ()) -> None:
    """Copy all packets of another file."""
    run_ffmpeg(*before, "-i", source, "-map", 0, "-c", "copy", *_EXACT, *options, path)


def _speed(encoder: str) -> list[object]:
    """Return the options that make a slow encoder bearable and quiet."""
    speeds: dict[str, list[object]] = {
        "libx264": ["-preset", "veryfast"],
        "libx265": ["-preset", "ultrafast"],
        "libvpx": ["-deadline", "realtime", "-cpu-used", 8],
        "libvpx-vp9": ["-deadline", "realtime", "-cpu-used", 8],
        "libsvtav1": ["-preset", 12],
        "libaom-av1": ["-cpu-used", 8, "-usage", "realtime"],
    }
    return speeds.get(encoder, [])
