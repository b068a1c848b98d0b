"""Makes a folder of clips for a machine with a GPU that has no ffmpeg command to make them with.

Usage: python -m tests.io.av.carried_clips FOLDER

`SPDL_TEST_CLIPS=FOLDER make test-cuda` there decodes them, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.io.av.encoded import video
from tests.io.av.sources import Pictures

_SHOWN = Pictures(320, 240)
"""NVDEC decodes no HEVC below 144x144 pixels."""
_DEEP = Pictures(320, 240, pix_fmt="yuv420p10le")
_X265 = "log-level=error:keyint=12:bframes=3:pools=none:frame-threads=1"

CLIPS = {
    "h264.mp4": video("libx264", "-g", 12, "-bf", 2, pictures=_SHOWN),
    "h264.ts": video("libx264", "-g", 12, "-bf", 2, pictures=_SHOWN),
    "h264_open_gop.mp4": video("libx264", "-bf", 3, "-x264-params", "open-gop=1:keyint=12", pictures=_SHOWN),
    "h264_bt709.mp4": video("libx264", "-g", 12, "-colorspace", "bt709", pictures=_SHOWN),
    "hevc.mp4": video("libx265", "-x265-params", _X265, "-tag:v", "hvc1", pictures=_SHOWN),
    "hevc_10bit.mp4": video("libx265", "-x265-params", _X265, "-tag:v", "hvc1", pictures=_DEEP),
    "vp8.webm": video("libvpx", "-g", 12, "-b:v", "1M", pictures=_SHOWN),
    "vp9.webm": video("libvpx-vp9", "-g", 12, "-b:v", "1M", pictures=_SHOWN),
    "vp9_10bit.webm": video("libvpx-vp9", "-g", 12, "-b:v", "1M", "-profile:v", 2, pictures=_DEEP),
    "vp9_odd.webm": video("libvpx-vp9", "-g", 12, "-b:v", "1M", pictures=Pictures(321, 241)),
    "av1.mp4": video(("libsvtav1", "libaom-av1"), "-g", 12, "-crf", 35, pictures=_SHOWN),
    "av1_10bit.mp4": video(("libsvtav1", "libaom-av1"), "-g", 12, "-crf", 35, pictures=_DEEP),
    "mpeg2.ts": video("mpeg2video", "-g", 12, "-bf", 2, "-q:v", 4, pictures=_SHOWN),
}


def main(folder: Path) -> None:
    """Make all clips."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, clip in CLIPS.items():
        clip.make(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
