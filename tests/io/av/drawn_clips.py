"""Clips that hypothesis draws: codec, container, reordered frames, gaps, joins, cuts and late clocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from tests.io.av import oracle
from tests.io.av.encoded import copied, encode
from tests.io.av.ffmpeg import need_encoder, run_ffprobe
from tests.io.av.sources import Pictures

# Encoders with their options, and the containers that they go into. Those of the second row have no frames that are
# shown out of order.
_CODECS: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "mpeg4": (("mpeg4", "-q:v", 4), ("avi", "mp4", "mov", "mkv", "ts")),
    "h264": (("libx264", "-preset", "veryfast"), ("avi", "mp4", "mov", "mkv", "ts", "mpg", "flv", "h264")),
    "hevc": (("libx265", "-preset", "ultrafast"), ("mp4", "mkv", "ts", "hevc")),
    "mpeg2": (("mpeg2video", "-q:v", 4), ("ts", "mpg", "vob", "mkv", "avi", "m2v")),
    "mpeg1": (("mpeg1video", "-q:v", 4), ("mpg",)),
    "vp8": (("libvpx", "-deadline", "realtime", "-cpu-used", 8, "-b:v", "300k"), ("webm", "avi")),
    "vp9": (("libvpx-vp9", "-deadline", "realtime", "-cpu-used", 8, "-b:v", "300k"), ("webm", "mp4")),
    "av1": (("libsvtav1", "-preset", 12, "-crf", 40), ("mp4", "webm")),
    "mjpeg": (("mjpeg", "-q:v", 4, "-pix_fmt", "yuvj420p"), ("avi", "mov", "mkv", "mjpeg")),
    "ffv1": (("ffv1",), ("avi", "mkv")),
    "flv1": (("flv", "-q:v", 4), ("flv",)),
    "theora": (("libtheora", "-q:v", 6), ("ogv",)),
}
_REORDERED = ("mpeg4", "h264", "hevc", "mpeg2", "mpeg1")
_ALL_KEYS = ("mjpeg", "ffv1")
# How many can be put one behind the other with `cat`, so that FFmpeg reads all.
_JOINED = {"ts": 3, "mpg": 3, "vob": 3, "mkv": 2, "webm": 2, "h264": 3, "hevc": 3, "m2v": 3, "mjpeg": 3}
# What can begin with a clock that is late.
_LATE = ("ts", "mp4", "mov", "mkv")
_RAW = ("h264", "hevc", "m2v", "mjpeg")
# Of what ffmpeg writes into these without encoding, they may say when it is decoded, where they should say when it is
# shown, or something between.
_COPIED = {
    "avi": ("mp4", "mov"),
    "mpg": ("mp4", "mov"),
    "vob": ("mp4",),
    "h264": ("mp4", "mov"),
    "hevc": ("mp4",),
    "m2v": ("mp4", "mov"),
}
_WIDTH, _HEIGHT = 96, 64


@dataclass(frozen=True)
class Part:
    """A file of its own, or one that others are joined to.

    Attributes:
        count: The pictures that are encoded.
        b_frames: The most frames in a row that are shown before one that is decoded earlier.
        dropped: The first of the pictures that are left out, and how many.
        late: The seconds by which the clock is late.
        rate: Pictures per second.
        lost: How many of the packets at the end are left out. Nothing that is left needs them.
    """

    count: int
    b_frames: int
    gop: int
    open_gop: bool
    dropped: tuple[int, int]
    late: float
    rate: int = 25
    lost: int = 0


@dataclass(frozen=True)
class DrawnClip:
    """A clip, which `make` writes.

    Attributes:
        cut: The seconds that are cut off at the beginning without encoding, so that an edit list hides frames.
        fragmented: Whether an MP4 has an index in pieces.
        copied: The container that the whole is copied to without encoding; "" for none.
        lost: How many packets at the beginning are left out in that.
    """

    codec: str
    container: str
    parts: tuple[Part, ...]
    cut: float = 0
    fragmented: bool = False
    copied: str = ""
    lost: int = 0

    @property
    def counted(self) -> bool:
        """Whether the container has no times at all, or has got them from nowhere."""
        return self.container in _RAW or bool(self.copied)

    @property
    def decoding_times(self) -> bool:
        """Whether the container only says when frames are decoded."""
        return self.container == "avi" and self.codec in _REORDERED

    def make(self, folder: Path) -> Path:
        """Write the file and return its path."""
        path = folder / f"drawn.{self.container}"
        content = b"".join(self._written(part, 40 * number, folder) for number, part in enumerate(self.parts))
        path.write_bytes(content)
        if self.copied:
            source = path
            path = folder / f"copied.{self.copied}"
            copied(path, source, *(["-bsf:v", f"noise=drop=lt(n\\,{self.lost})"] if self.lost else []))
        return path

    def numbers(self) -> list[int] | None:
        """Return the numbers of the pictures that are encoded, of which a cut leaves the last ones.

        None if it is not known which ones are left out, as when the ffmpeg command copies what has no times.
        """
        if self.copied or any(part.lost for part in self.parts):
            return None
        return [
            40 * number + k
            for number, part in enumerate(self.parts)
            for k in range(part.count)
            if not part.dropped[0] <= k < sum(part.dropped)
        ]

    def times(self) -> list[list[float]] | None:
        """Return when the frames of each part are shown, by the ffprobe command; None if nothing says so."""
        if self.counted or max(it.b_frames for it in self.parts) > self.parts[0].b_frames:
            # Of later parts that hold back more frames than the first, it is not known how many.
            return None
        if self.container in ("mpg", "vob") and len(self.parts) > 1:
            return None  # The last frames of a part may have none.
        found: list[list[float]] = []
        with TemporaryDirectory() as name:
            for number, part in enumerate(self.parts):
                path = Path(name) / f"part.{self.container}"
                path.write_bytes(self._written(part, 40 * number, Path(name)))
                own = self._times_of(path, part.rate)
                if own is None:
                    return None
                found.append(own)
        return found

    def _times_of(self, path: Path, rate: int) -> list[float] | None:
        if self.decoding_times:
            return sorted(float(it.dts) for it in oracle.packets(path) if it.size and it.dts is not None)
        command = (
            "-select_streams",
            "v:0",
            "-show_entries",
            "frame=best_effort_timestamp_time",
            "-of",
            "csv=p=0",
            path,
        )
        found = [line.strip(",") for line in run_ffprobe(*command).decode().split()]
        if "N/A" in found[:-1]:
            return None
        # It knows nothing of a last frame that was held back, or takes it for the one before.
        if len(found) > 1 and found[-1] in ("N/A", found[-2]):
            found[-1] = str(float(found[-2]) + 1 / rate)
        # The command shows frames of AV1 that an edit list cuts off.
        cut_off = self.cut > 0 and self.codec == "av1" and self.container == "mp4"
        return [time for time in map(float, found) if time >= 0 or not cut_off]

    def _written(self, part: Part, first: int, folder: Path) -> bytes:
        encoder, *options = _CODECS[self.codec][0]
        options = [*options, *self._structure(part)]
        start, length = part.dropped
        if length:
            kept = f"select=not(between(n\\,{start}\\,{start + length - 1}))"
            options += ["-vf", kept, "-fps_mode", "passthrough" if self.container in _RAW else "vfr"]
        if part.late:
            options += ["-output_ts_offset", part.late]
        if self.fragmented:
            options += ["-movflags", "frag_keyframe+empty_moov"]
        path = folder / f"encoded.{self.container}"
        shown = Pictures(_WIDTH, _HEIGHT, part.count, rate=str(part.rate), first=first)
        encode(path, ["-c:v", need_encoder(str(encoder)), *options], pictures=shown)
        if self.cut:
            whole = path.rename(folder / f"whole.{self.container}")
            copied(path, whole, before=("-ss", self.cut))
        if part.lost:
            whole = path.rename(folder / f"whole.{self.container}")
            count = len(oracle.packets(whole)) - part.lost
            copied(path, whole, "-copyts", "-muxdelay", 0, "-frames:v", count)
        return path.read_bytes()

    def _structure(self, part: Part) -> list[object]:
        if self.codec == "hevc":
            keys = f"keyint={part.gop}:min-keyint=1:bframes={part.b_frames}:open-gop={int(part.open_gop)}"
            return ["-x265-params", f"log-level=error:{keys}:pools=none:frame-threads=1"]
        if self.codec == "h264":
            return ["-g", part.gop, "-bf", part.b_frames, "-x264-params", f"open-gop={int(part.open_gop)}"]
        if self.codec in _REORDERED:
            closed = [] if part.open_gop else ["-flags", "+cgop", "-sc_threshold", 1_000_000_000]
            return ["-g", part.gop, "-bf", part.b_frames, *closed]
        return [] if self.codec in _ALL_KEYS else ["-g", part.gop]


@st.composite
def drawn_clips(draw: st.DrawFn) -> DrawnClip:
    """Draw a clip."""
    codec = draw(st.sampled_from(sorted(_CODECS)))
    container = draw(st.sampled_from(_CODECS[codec][1]))
    # FFmpeg loses a frame where MPEG-4 begins anew, and HEVC in Matroska.
    most = 1 if codec == "mpeg4" or (codec, container) == ("hevc", "mkv") else _JOINED.get(container, 1)
    count = min(draw(st.sampled_from([1, 1, 2, 3])), most)
    fragmented = container == "mp4" and draw(st.booleans())
    # The ffmpeg command shows JPEGs that are cut off.
    may_cut = container in ("mp4", "mov") and codec != "mjpeg" and not fragmented
    cut = draw(st.sampled_from([0, 0, 0.3, 0.7])) if may_cut else 0
    parts: list[Part] = []
    rates = [25] if container in _RAW else [25, 25, 50] if codec == "mpeg1" else [25, 25, 50, 10]
    for _ in range(count):
        length = draw(st.integers(24, 40))
        # What the first packets say of times reaches over a gap behind them.
        start = draw(st.integers(2 if count == 1 else 8, length - 6))
        b_frames = draw(st.integers(0, 3)) if codec in _REORDERED else 0
        rate = draw(st.sampled_from(rates)) if count > 1 else 25
        if parts and container in ("mkv", "webm"):
            b_frames, rate = parts[0].b_frames, parts[0].rate  # Its header is that of all.
        # About when the part before ends, or at any other time.
        end = parts[-1].late + parts[-1].count / parts[-1].rate if parts else 0
        late = [0, 0.5, 3.04, *(end + step / 25 for step in range(-2, 3) if parts)]
        parts.append(
            Part(
                length,
                b_frames,
                draw(st.sampled_from([3, 8, 12, 100])),
                draw(st.booleans()),
                (start, draw(st.sampled_from([0, 1, 3, min(11, length - start - 2)]))),
                round(draw(st.sampled_from(late)), 2) if container in _LATE else 0,
                rate,
                draw(st.sampled_from([0, 0, 1, 2, 5])) if count > 1 and container == "ts" else 0,
            )
        )
    to = ""
    if count == 1 and codec in _REORDERED and container in _COPIED and draw(st.booleans()):
        to = draw(st.sampled_from(_COPIED[container]))
    lost = draw(st.sampled_from([0, 0, 1, 2, 5])) if to and parts[0].gop < parts[0].count // 2 else 0
    return DrawnClip(codec, container, tuple(parts), cut, fragmented, to, lost)
