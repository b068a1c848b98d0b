"""Sounds that are drawn: of any codec in any container, beside a video or alone, with gaps and joined."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.sources import Sound

_EXACT = ("-fflags", "+bitexact", "-flags:a", "+bitexact", "-flags:v", "+bitexact", "-threads", 1)

# Encoder with its options, and the containers that hold it.
_CODECS: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "ac3": (("ac3",), ("vob", "mpg", "ts", "mkv", "mp4", "ac3", "avi")),
    "eac3": (("eac3",), ("ts", "mkv", "mp4", "eac3")),
    "mp2": (("mp2",), ("vob", "mpg", "ts", "mkv", "mp2", "avi", "mp4")),
    "mp3": (("libmp3lame",), ("ts", "mkv", "mp3", "avi", "mp4", "mpg", "caf")),
    # Without noise substitution, which depends on all that was decoded before.
    "aac": (("aac", "-aac_pns", 0), ("ts", "mkv", "mp4", "aac")),
    "opus": (("libopus",), ("ogg", "mkv", "webm", "ts", "mp4", "caf")),
    "opus_short": (("libopus", "-frame_duration", 2.5), ("ogg", "mkv")),
    "opus_long": (("libopus", "-frame_duration", 60), ("ogg", "mkv")),
    "vorbis": (("libvorbis",), ("ogg", "mkv", "webm")),
    "flac": (("flac",), ("flac", "ogg", "mkv", "mp4", "caf")),
    "alac": (("alac",), ("mp4", "mkv", "caf")),
    "pcm_s16le": (("pcm_s16le",), ("wav", "avi", "mkv", "nut", "w64", "caf")),
}
_RATES = {
    "ac3": (48000, 44100, 32000), "eac3": (48000, 44100, 32000), "mp2": (48000, 44100, 32000, 24000, 22050, 16000),
    "mp3": (48000, 44100, 32000, 24000, 22050, 16000), "aac": (48000, 44100, 32000, 22050, 16000, 11025),
    "opus": (48000,), "opus_short": (48000,), "opus_long": (48000,), "vorbis": (48000, 44100, 22050, 8000),
    "flac": (96000, 48000, 44100, 22050, 8000, 12345), "alac": (48000, 44100, 22050),
    "pcm_s16le": (96000, 48000, 44100, 11025, 8000, 12345),
}  # fmt: skip
_VIDEOS = {
    "vob": ("mpeg2video", "-bf", 2, "-g", 12),
    "mpg": ("mpeg1video", "-bf", 2, "-g", 12),
    "ts": ("mpeg2video", "-bf", 2, "-g", 12),
    "mkv": ("mpeg4", "-bf", 2, "-g", 12),
    "mp4": ("mpeg4", "-bf", 2, "-g", 12),
    "avi": ("mpeg4", "-g", 12),
}
# Containers whose files may be written one behind the other.
_JOINED = ("ts", "mpg", "vob", "ogg", "mp3", "mp2", "aac", "ac3", "eac3", "flac")
# Containers of times in which packets can be late.
_TIMED = ("ts", "mkv", "nut")
# The unit of times in a second, if it is not a sample.
_UNITS = {"mkv": 1000, "ts": 90_000}
PACKET_OF_GAP = 7
# When the clock of MPEG-TS begins anew, in seconds.
_PERIOD = 2**33 / 90_000
_ID3V1 = b"TAG" + b"A title".ljust(125, b"\0")
# With what looks like a frame of MP3 in it.
_ID3V2 = b"ID3\4\0\0\0\0\4\0TIT2\0\0\3\x76\0\0\0" + b"\xff\xfb\x90\x64title".ljust(501, b"x")
_APE = b"".join(b"APETAGEX" + struct.pack("<IIIIQ", 2000, 32, 0, flags, 0) for flags in (0xA0000000, 0x80000000))
_TAGS = {
    "": (b"", b""),
    "ID3v2": (_ID3V2, b""),
    "ID3v1": (b"", _ID3V1),
    "both": (_ID3V2, _ID3V1),
    "several": (_ID3V2 + _ID3V2, _APE + _ID3V1),
}


@dataclass(frozen=True)
class DrawnSound:
    """What a file is made of.

    Attributes:
        seconds: Of each part.
        parts: How many files there are one behind the other.
        gap: Seconds that are missing in front of packet `PACKET_OF_GAP`.
        late: Seconds by which that packet alone is late.
        again: Whether all parts are the same file.
        tags: Which tags there are in front of each part, and behind it.
        offset: Where the clock begins, in seconds. That of each part begins earlier.
    """

    codec: str
    container: str
    rate: int
    channels: int
    seconds: float
    with_video: bool
    parts: int
    gap: float
    late: float
    again: bool
    tags: str = ""
    offset: float = 0

    def make(self, path: Path) -> None:
        """Write the file. Skip the test if the ffmpeg command cannot make it."""
        front, behind = _TAGS[self.tags]
        with TemporaryDirectory() as folder:
            path.write_bytes(b"".join(front + part.read_bytes() + behind for part in self.make_parts(Path(folder))))

    def make_parts(self, folder: Path) -> list[Path]:
        """Write the files that are put one behind the other, without tags."""
        files = []
        for part in range(self.parts):
            file = folder / f"part{part}.{self.container}"
            self._make_part(file, 0 if self.again else part)
            files.append(file)
        return files

    def _make_part(self, path: Path, part: int) -> None:
        encoder, *options = _CODECS[self.codec][0]
        sound = Sound(self.rate, self.channels, self.seconds + part / 7, 440 + 100 * part)
        raw = path.with_suffix(".raw")
        raw.write_bytes(sound.as_dtype("i2").tobytes())
        inputs: list[object] = ["-f", "s16le", "-ar", self.rate, "-ac", self.channels, "-i", raw]
        maps: list[object] = ["-map", "0:a"]
        video: list[object] = []
        if self.with_video:
            inputs += ["-f", "lavfi", "-i", f"testsrc2=s=64x48:r=25:d={sound.seconds}"]
            maps += ["-map", "1:v"]
            video = ["-c:v", *_VIDEOS[self.container]]
        moved: list[object] = []
        if self.gap or self.late:
            when = f"gte(N\\,{PACKET_OF_GAP})" if self.gap else f"eq(N\\,{PACKET_OF_GAP})"
            units = round((self.gap or self.late) * _UNITS.get(self.container, self.rate))
            moved = ["-bsf:a", f"setts=ts=TS+{when}*{units}"]
        if self.container == "mp3" and self.parts > 1:
            moved = ["-id3v2_version", 0]  # Those that are drawn are enough.
        if self.offset:
            moved = ["-output_ts_offset", max(self.offset - 4000 * part, 0)]
        if self.container == "webm":
            moved += ["-f", "webm"]
        run_ffmpeg(
            *inputs, *maps, *_EXACT, "-c:a", need_encoder(str(encoder)), *options, "-strict", -2, *video, *moved, path
        )


@st.composite
def drawn_sounds(draw: st.DrawFn) -> DrawnSound:
    """Draw what a file is made of."""
    codec = draw(st.sampled_from(sorted(_CODECS)))
    container = draw(st.sampled_from(_CODECS[codec][1]))
    with_video = container in _VIDEOS and draw(st.booleans())
    parts = draw(st.sampled_from([1, 1, 2, 3])) if container in _JOINED else 1
    change = draw(st.sampled_from(["", "", "gap", "late"])) if container in _TIMED and parts == 1 else ""
    # Of one only the decoder knows how long a packet is, and of the other times may be wrong: small gaps do not count.
    # Beside a video, the command's filter moves other packets of Opus, too.
    if codec in ("eac3", "vorbis") or (codec.startswith("opus") and with_video):
        change = ""
    return DrawnSound(
        codec,
        container,
        draw(st.sampled_from(_RATES[codec])),
        draw(st.sampled_from([1, 2])),
        draw(st.floats(0.8, 3.0).map(lambda seconds: round(seconds, 2))),
        with_video,
        parts,
        draw(st.integers(20, 1500)) / 1000 if change == "gap" else 0,
        draw(st.integers(5, 60)) / 1000 if change == "late" else 0,
        draw(st.booleans()),
        draw(st.sampled_from(sorted(_TAGS) if container != "flac" else ["", "ID3v2"]))
        if container in ("mp3", "mp2", "flac")
        else "",
        draw(st.sampled_from([0, 0, 7.5, _PERIOD - 2, 100_000])) if container == "ts" and not change else 0,
    )
