"""Sounds that are drawn: of any codec in any container, beside a video or alone, with gaps and joined."""

from __future__ import annotations

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
    "mp3": (("libmp3lame",), ("ts", "mkv", "mp3", "avi", "mp4", "mpg")),
    # Without noise substitution, which depends on all that was decoded before.
    "aac": (("aac", "-aac_pns", 0), ("ts", "mkv", "mp4", "aac")),
    "opus": (("libopus",), ("ogg", "mkv", "webm", "ts", "mp4")),
    "opus_short": (("libopus", "-frame_duration", 2.5), ("ogg", "mkv")),
    "opus_long": (("libopus", "-frame_duration", 60), ("ogg", "mkv")),
    "vorbis": (("libvorbis",), ("ogg", "mkv", "webm")),
    "flac": (("flac",), ("flac", "ogg", "mkv", "mp4")),
    "alac": (("alac",), ("mp4", "mkv")),
    "pcm_s16le": (("pcm_s16le",), ("wav", "avi", "mkv", "nut", "w64")),
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
_JOINED = ("ts", "mpg", "vob", "ogg", "mp3", "mp2", "aac", "ac3", "eac3")
# Containers of times in which packets can be late.
_TIMED = ("ts", "mkv", "nut")
# The unit of times in a second, if it is not a sample.
_UNITS = {"mkv": 1000, "ts": 90_000}
PACKET_OF_GAP = 7


@dataclass(frozen=True)
class DrawnSound:
    """What a file is made of.

    Attributes:
        seconds: Of each part.
        parts: How many files there are one behind the other.
        gap: Seconds that are missing in front of packet `PACKET_OF_GAP`.
        late: Seconds by which that packet alone is late.
        again: Whether all parts are the same file.
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

    def make(self, path: Path) -> None:
        """Write the file. Skip the test if the ffmpeg command cannot make it."""
        with TemporaryDirectory() as folder:
            whole = b""
            for part in range(self.parts):
                file = Path(folder) / f"part{part}.{self.container}"
                self._make_part(file, 0 if self.again else part)
                whole += file.read_bytes()
        path.write_bytes(whole)

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
            moved = ["-id3v2_version", 0]  # A tag in the middle is no sound.
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
    )
