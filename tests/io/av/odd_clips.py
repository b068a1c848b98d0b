"""The tests' clips with several streams, with changes in mid-stream, cut ones and broken ones."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.io.av.encoded import Clip, both, copied, encode
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.sources import Pictures, Sound, beeps, flashes

if TYPE_CHECKING:
    from collections.abc import Callable

_X264 = ("-g", 12, "-bf", 2)

# Of the clips "sync": a flash and a beep each half second.
SYNC_PICTURES, SYNC_SOUND = Pictures(64, 48, 60, "gray", "30"), Sound(48000, 1)
SYNC_PERIOD_SECONDS, SYNC_LENGTH_SECONDS = 0.5, 0.1


def _in_sync(*options: object) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        bright = flashes(SYNC_PICTURES, 15, 3)
        with TemporaryDirectory() as name:
            pictures, sound = Path(name) / "pictures", Path(name) / "sound"
            pictures.write_bytes(b"".join(it.tobytes() for it in bright))
            sound.write_bytes(beeps(SYNC_SOUND, 24000, 4800).tobytes())
            video = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", "64x48", "-r", 30, "-i", pictures]
            audio = ["-f", "s16le", "-ar", 48000, "-ac", 1, "-i", sound]
            run_ffmpeg(*video, *audio, "-pix_fmt", "yuv420p", "-threads", 1, *options, path)

    return make


def _joined(suffix: str, *parts: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return what writes the bytes of several files one after the other, which some containers allow."""

    def make(path: Path) -> None:
        with TemporaryDirectory() as name:
            whole = b""
            for number, part in enumerate(parts):
                file = Path(name) / f"{number}{suffix}"
                part(file)
                whole += file.read_bytes()
        path.write_bytes(whole)

    return make


def _pictures(pictures: Pictures, offset: float = 0) -> Callable[[Path], None]:
    options = [*_X264, "-output_ts_offset", offset, "-muxdelay", 0]
    return lambda path: encode(path, ["-c:v", need_encoder("libx264"), *options], pictures=pictures)


def _sound(sound: Sound, encoder: str, *options: object) -> Callable[[Path], None]:
    return lambda path: encode(path, ["-c:a", need_encoder(encoder), *options], sounds=[sound])


def _changed(make: Callable[[bytes], bytes], source: Clip, suffix: str) -> Clip:
    """Return a clip of the changed bytes of another one."""

    def changed(path: Path) -> None:
        with TemporaryDirectory() as name:
            file = Path(name) / f"source{suffix}"
            source.make(file)
            path.write_bytes(make(file.read_bytes()))

    return Clip(changed, source.pictures, source.sound, whole=False)


def _copied(source: Clip, *options: object, before: tuple[object, ...] = ()) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with TemporaryDirectory() as name:
            file = Path(name) / f"source{path.suffix}"
            source.make(file)
            copied(path, file, *options, before=before)

    return make


def _still(pictures: Pictures, pix_fmt: str) -> Callable[[Path], None]:
    options = ["-c:v", "png", "-pix_fmt", pix_fmt, "-frames:v", 1, "-update", 1]
    return lambda path: encode(path, options, pictures=pictures)


def _with_cover(path: Path) -> None:
    with TemporaryDirectory() as name:
        sound, cover = Path(name) / "sound.mp3", Path(name) / "cover.jpg"
        _sound(Sound(44100), "libmp3lame")(sound)
        encode(
            cover, ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-frames:v", 1, "-update", 1], pictures=Pictures(count=1)
        )
        tags = ["-metadata:s:v", "title=Album cover", "-disposition:v", "attached_pic"]
        run_ffmpeg("-i", sound, "-i", cover, "-map", 0, "-map", 1, "-c", "copy", *tags, path)


def _flipped(data: bytes) -> bytes:
    """Change one byte of each thousand, but none of the first thousand, which hold the container's header."""
    changed = bytearray(data)
    for place in range(1500, len(changed), 997):
        changed[place] ^= 0x55
    return bytes(changed)


_WITH_SOUND = both(["libx264", *_X264], ["aac", "-b:a", "96k"])
_TS = Clip(_pictures(Pictures()), Pictures())

ODD_CLIPS = {
    "both.mp4": _WITH_SOUND,
    "both.mkv": both(["libx264", *_X264], ["flac"]),
    "both.ts": both(["libx264", *_X264], ["mp2", "-b:a", "192k"]),
    "both.avi": both(["mpeg4", "-q:v", 4], ["libmp3lame", "-b:a", "128k"]),
    "both.webm": both(["libvpx", "-deadline", "realtime", "-b:v", "400k"], ["libopus", "-b:a", "64k"]),
    "both_lossless.mkv": both(["ffv1"], ["flac"]),
    "two_sounds.mkv": both(["ffv1"], ["flac"], Sound(), Sound(44100, 1, tone=880)),
    "sync.mkv": Clip(_in_sync("-c:v", "ffv1", "-c:a", "pcm_s16le"), whole=False),
    "sync.mp4": Clip(_in_sync("-c:v", "libx264", "-g", 12, "-bf", 2, "-c:a", "aac"), whole=False),
    "sync.ts": Clip(_in_sync("-c:v", "libx264", "-g", 12, "-bf", 2, "-c:a", "mp2"), whole=False),
    "resolution_change.ts": Clip(
        _joined(".ts", _pictures(Pictures(count=25)), _pictures(Pictures(128, 96, 25, first=25), 1)),
        Pictures(),
        whole=False,
    ),
    "sample_rate_change.mp3": Clip(
        _joined(
            ".mp3",
            *(
                _sound(Sound(rate, 2, 1.0), "libmp3lame", "-write_xing", 0, "-id3v2_version", 0)
                for rate in (44100, 48000)
            ),
        ),
        whole=False,
    ),
    "channel_change.aac": Clip(
        _joined(".aac", *(_sound(Sound(48000, channels, 1.0), "aac") for channels in (1, 2))), whole=False
    ),
    # Cut between two key frames without encoding: an edit list hides the pictures before the cut.
    "edit_list.mp4": Clip(_copied(_WITH_SOUND, before=("-ss", 0.7)), Pictures(), Sound(), whole=False),
    "rgb.png": Clip(_still(Pictures(96, 64, 1, "gbrp"), "rgb24"), whole=False),
    "gray.png": Clip(_still(Pictures(96, 64, 1, "gray"), "gray"), whole=False),
    "rgba.png": Clip(_still(Pictures(96, 64, 1, "gbrp"), "rgba"), whole=False),
    "cover.mp3": Clip(_with_cover, whole=False),
    "cut.mp4": _changed(lambda data: data[: len(data) // 2], _WITH_SOUND, ".mp4"),
    "cut.mkv": _changed(lambda data: data[: len(data) // 2], both(["libx264", *_X264], ["flac"]), ".mkv"),
    "cut.ts": _changed(lambda data: data[: len(data) // 2], _TS, ".ts"),
    "damaged.ts": _changed(_flipped, _TS, ".ts"),
    "damaged.mkv": _changed(_flipped, both(["libx264", *_X264], ["flac"]), ".mkv"),
}
