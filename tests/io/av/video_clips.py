"""The tests' clips with video alone: codecs, containers, pixel formats, colours and times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.io.av.encoded import Clip, copied, encode, video
from tests.io.av.ffmpeg import need_encoder
from tests.io.av.sources import Pictures

_X264 = ("-g", 12, "-bf", 2)
_X265 = ("-x265-params", "log-level=error:keyint=12:bframes=3:pools=none:frame-threads=1", "-tag:v", "hvc1")
_LOSSLESS_X264 = ("-qp", 0, *_X264)

CODECS = {
    "h264.mp4": video("libx264", *_X264),
    "h264.mkv": video("libx264", *_X264),
    "h264.ts": video("libx264", *_X264),
    "h264.mov": video("libx264", *_X264),
    "h264.avi": video("libx264", *_X264),
    "h264_fragmented.mp4": video("libx264", *_X264, "-movflags", "frag_keyframe+empty_moov"),
    "h264_faststart.mp4": video("libx264", *_X264, "-movflags", "faststart"),
    "h264_open_gop.mp4": video("libx264", "-bf", 3, "-x264-params", "open-gop=1:keyint=12:b-pyramid=normal"),
    "h264_no_b_frames.mp4": video("libx264", "-g", 12, "-bf", 0),
    "h264_one_gop.mp4": video("libx264", "-g", 1000, "-bf", 2, pictures=Pictures(count=75)),
    "h264_all_key.mp4": video("libx264", "-g", 1),
    "h264_interlaced.ts": video("libx264", *_X264, "-flags", "+ildct+ilme", "-x264-params", "interlaced=1"),
    "h264_lossless.mp4": video("libx264", *_LOSSLESS_X264, lossless=True),
    "h264_lossless.mkv": video("libx264", *_LOSSLESS_X264, lossless=True),
    "hevc.mp4": video("libx265", *_X265),
    "hevc.mkv": video("libx265", *_X265[:2]),
    "hevc_lossless.mkv": video("libx265", "-x265-params", f"{_X265[1]}:lossless=1", lossless=True),
    "vp8.webm": video("libvpx", "-g", 12, "-b:v", "400k"),
    "vp9.webm": video("libvpx-vp9", "-g", 12, "-b:v", "400k"),
    "vp9_lossless.webm": video("libvpx-vp9", "-lossless", 1, lossless=True),
    "av1.mp4": video(("libsvtav1", "libaom-av1"), "-g", 12, "-crf", 35),
    "av1.mkv": video(("libaom-av1", "libsvtav1"), "-g", 12, "-crf", 35, pictures=Pictures(count=25)),
    "mpeg4.avi": video("mpeg4", "-g", 12, "-bf", 2, "-q:v", 4),
    "mpeg4.mp4": video("mpeg4", "-g", 12, "-bf", 2, "-q:v", 4),
    "mpeg2.ts": video("mpeg2video", "-g", 12, "-bf", 2, "-q:v", 4),
    "mpeg2.mpg": video("mpeg2video", "-g", 12, "-bf", 2, "-q:v", 4),
    "mpeg1.mpg": video("mpeg1video", "-g", 12, "-bf", 2, "-q:v", 4),
    "mjpeg.avi": video("mjpeg", "-q:v", 3, "-pix_fmt", "yuvj420p"),
    "mjpeg.mov": video("mjpeg", "-q:v", 3, "-pix_fmt", "yuvj420p"),
    "prores.mov": video("prores_ks", "-pix_fmt", "yuv422p10le", pictures=Pictures(pix_fmt="yuv422p10le")),
    "theora.ogv": video("libtheora", "-g", 12, "-q:v", 7),
    "ffv1.mkv": video("ffv1", lossless=True),
    "ffv1.avi": video("ffv1", lossless=True),
    "rawvideo.avi": video("rawvideo", lossless=True),
    "rawvideo.nut": video("rawvideo", lossless=True),
    "huffyuv.avi": video("huffyuv", pictures=Pictures(pix_fmt="yuv422p"), lossless=True),
}


def _ffv1(pix_fmt: str, width: int = 96, height: int = 64) -> Clip:
    return video("ffv1", pictures=Pictures(width, height, 10, pix_fmt), lossless=True)


PIXEL_FORMATS = {
    "ffv1_gray.mkv": _ffv1("gray"),
    "ffv1_gray16.mkv": _ffv1("gray16le"),
    "ffv1_422.mkv": _ffv1("yuv422p"),
    "ffv1_444.mkv": _ffv1("yuv444p"),
    "ffv1_411.mkv": _ffv1("yuv411p"),
    "ffv1_410.mkv": _ffv1("yuv410p"),
    "ffv1_alpha.mkv": _ffv1("yuva420p"),
    "ffv1_420_10bit.mkv": _ffv1("yuv420p10le"),
    "ffv1_422_10bit.mkv": _ffv1("yuv422p10le"),
    "ffv1_444_10bit.mkv": _ffv1("yuv444p10le"),
    "ffv1_420_12bit.mkv": _ffv1("yuv420p12le"),
    "ffv1_odd.mkv": _ffv1("yuv420p", 97, 65),
    "ffv1_odd_444.mkv": _ffv1("yuv444p", 97, 65),
    "ffv1_tiny.mkv": _ffv1("yuv420p", 16, 8),
    "h264_422.mp4": video("libx264", *_X264, pictures=Pictures(pix_fmt="yuv422p")),
    "h264_444.mp4": video("libx264", *_X264, pictures=Pictures(pix_fmt="yuv444p")),
    "h264_444_odd.mp4": video("libx264", *_X264, pictures=Pictures(97, 65, pix_fmt="yuv444p")),
    "h264_gray.mp4": video("libx264", *_X264, pictures=Pictures(pix_fmt="gray")),
    "h264_10bit.mp4": video("libx264", *_X264, pictures=Pictures(pix_fmt="yuv420p10le")),
    # Neither side is a multiple of 16, so the codec codes more than is shown.
    "h264_cropped.mp4": video("libx264", *_X264, pictures=Pictures(98, 66)),
    "h264_320x240.mp4": video("libx264", *_X264, pictures=Pictures(320, 240)),
    "hevc_10bit.mp4": video("libx265", *_X265, pictures=Pictures(pix_fmt="yuv420p10le", count=25)),
    "hevc_cropped.mp4": video("libx265", *_X265, pictures=Pictures(98, 66, 25)),
}


def _tagged(space: str, primaries: str, transfer: str, color_range: str) -> Clip:
    tags: list[object] = ["-colorspace", space, "-color_primaries", primaries, "-color_trc", transfer]
    # The command would convert the pictures to the range that its own option names.
    tags += ["-x264-params", "fullrange=on"] if color_range == "pc" else ["-color_range", "tv"]
    return video("libx264", *_LOSSLESS_X264, *tags, pictures=Pictures(count=10), lossless=True)


COLORS = {
    "bt601.mp4": _tagged("smpte170m", "smpte170m", "smpte170m", "tv"),
    "bt601_full.mp4": _tagged("smpte170m", "smpte170m", "smpte170m", "pc"),
    "bt709.mp4": _tagged("bt709", "bt709", "bt709", "tv"),
    "bt709_full.mp4": _tagged("bt709", "bt709", "bt709", "pc"),
    "bt2020.mp4": _tagged("bt2020nc", "bt2020", "bt2020-10", "tv"),
}


def _irregular(path: Path) -> None:
    """Make pictures follow each other after 1, 2 and 3 steps of 40 ms, and again."""
    times = "setpts=(floor(N/3)*6+if(eq(mod(N\\,3)\\,1)\\,1\\,if(eq(mod(N\\,3)\\,2)\\,3\\,0)))/25/TB"
    encode(
        path, ["-vf", times, "-fps_mode", "passthrough", "-c:v", need_encoder("libx264"), *_X264], pictures=IRREGULAR
    )


# The command moves the last picture if it does not follow after one step.
IRREGULAR = Pictures(count=29)


def irregular_times() -> list[Fraction]:
    """Return when each picture of the clips "irregular" is shown, in seconds."""
    return [Fraction(index // 3 * 6 + (0, 1, 3)[index % 3], 25) for index in range(IRREGULAR.count)]


def _rotated(degrees: int) -> Clip:
    shown = Pictures(count=10)

    def make(path: Path) -> None:
        with TemporaryDirectory() as name:
            plain = Path(name) / "plain.mp4"
            encode(plain, ["-c:v", need_encoder("libx264"), *_X264], pictures=shown)
            copied(path, plain, "-metadata:s:v:0", f"rotate={degrees}")

    return Clip(make, shown)


def _elementary(path: Path) -> None:
    encode(path, ["-c:v", need_encoder("libx264"), *_X264, "-f", "h264"], pictures=Pictures())


TIMES = {
    "h264_ntsc.mp4": video("libx264", *_X264, pictures=Pictures(rate="30000/1001")),
    "h264_slow.mp4": video("libx264", *_X264, pictures=Pictures(count=5, rate="1/2")),
    "h264_one_picture.mp4": video("libx264", pictures=Pictures(count=1)),
    "irregular.mp4": Clip(_irregular, IRREGULAR),
    "irregular.mkv": Clip(_irregular, IRREGULAR),
    # Without timestamps, as it is in no container.
    "elementary.h264": Clip(_elementary, Pictures()),
    # Its clock starts some hours in, and its 33 bits are full half-way.
    "offset.ts": video("libx264", *_X264, "-output_ts_offset", 4000, "-muxdelay", 0),
    "wrapping.ts": video("libx264", *_X264, "-output_ts_offset", (1 << 33) / 90000 - 1, "-muxdelay", 0),
    "rotated_90.mp4": _rotated(90),
    "rotated_180.mp4": _rotated(180),
    "rotated_270.mp4": _rotated(270),
}

VIDEO_CLIPS = CODECS | PIXEL_FORMATS | COLORS | TIMES
