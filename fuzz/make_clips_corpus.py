"""Writes the inputs that fuzzing of audio and video begins with into the folder that is named.

A file for each of the usual codecs and containers, as small as can be, by the ffmpeg command.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VIDEO = {
    "h264.mp4": "-c:v libx264 -g 4 -bf 1 -preset ultrafast -tune zerolatency",
    "h264.mkv": "-c:v libx264 -g 4 -bf 1 -preset veryfast",
    "h264.ts": "-c:v libx264 -g 4 -preset ultrafast",
    "hevc.mp4": "-s 64x64 -c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=4:pools=none",
    "mpeg4.avi": "-c:v mpeg4 -g 4 -bf 1",
    "mpeg2.mpg": "-c:v mpeg2video -g 4",
    "vp8.webm": "-c:v libvpx -g 4",
    "vp9.webm": "-c:v libvpx-vp9 -g 4",
    "theora.ogv": "-c:v libtheora",
    "mjpeg.mov": "-c:v mjpeg -pix_fmt yuvj420p",
    "prores.mov": "-c:v prores_ks",
    "ffv1.mkv": "-c:v ffv1",
    "raw.avi": "-c:v rawvideo -frames:v 2",
}
AUDIO = {
    "pcm.wav": "-c:a pcm_s16le",
    "flac.flac": "-c:a flac",
    "alac.m4a": "-c:a alac",
    "aac.m4a": "-c:a aac",
    "aac.aac": "-c:a aac",
    "mp3.mp3": "-c:a libmp3lame",
    "opus.ogg": "-c:a libopus -ar 48000",
    "vorbis.ogg": "-c:a libvorbis -ar 44100",
    "opus.webm": "-c:a libopus -ar 48000",
    "flac.ogg": "-c:a flac",
    "speex.ogg": "-c:a libspeex -ar 8000",
    "aac.mkv": "-c:a aac",
    "pcm.mkv": "-c:a pcm_s24le -metadata title=x",
    "deep.flac": "-c:a flac -sample_fmt s32 -ac 2 -metadata title=x",
    "stereo.mp3": "-c:a libmp3lame -ar 44100 -ac 2 -joint_stereo 1 -metadata title=x -id3v2_version 3 -write_id3v1 1",
    "halves.mp3": "-c:a libmp3lame -q:a 9 -ar 16000",
}


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, options in VIDEO.items():
        _write(folder / name, "testsrc2=size=48x32:rate=10:duration=0.8", options)
    for name, options in AUDIO.items():
        _write(folder / name, "sine=frequency=440:sample_rate=8000:duration=0.3", options)
    both = f"{VIDEO['mpeg4.avi']} -c:a aac"
    inputs = "testsrc2=size=48x32:rate=10:duration=0.4[out0];sine=sample_rate=8000:duration=0.4[out1]"
    _write(folder / "both.mp4", inputs, both)
    _write(folder / "both.mkv", inputs, "-c:v libvpx -g 4 -c:a libvorbis -ar 44100")
    _write(folder / "both.ogg", inputs, "-c:v libtheora -c:a libvorbis -ar 44100 -f ogg")
    # Parts behind one another, as cat joins them.
    for name, first, second in (("joined.ogg", "opus.ogg", "vorbis.ogg"), ("joined.mp3", "mp3.mp3", "halves.mp3")):
        (folder / name).write_bytes((folder / first).read_bytes() + (folder / second).read_bytes())


def _write(path: Path, source: str, options: str) -> None:
    exact = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1"]
    command = [
        "ffmpeg",
        "-nostdin",
        "-v",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        source,
        *options.split(),
        *exact,
        str(path),
    ]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
