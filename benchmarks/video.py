"""Measure reading video, beside other libraries on the same clips and beside decoding alone.

On real clips of H.264. Each contender has its own process and environment, all take turns, and the medians of the
rounds count. `_media_rows.py` has the rows:

* a whole clip of 720p, and one of 176x144, to 224x224 RGB on one thread, by a `VideoReader` and by a filter
  description, beside decoding alone by the same build, which drops each frame at once;
* a whole clip by `demux_video`, `decode_packets` and `convert_frames`, which 0.8.0 has, too, bicubic and bilinear, and
  by a `VideoReader`;
* two clips at once on two cores;
* ten random frames by index of a clip of 55 s;
* 8 clips of 16 frames from each of 100 files in whole loaders, each with several numbers of workers, the best of which
  counts;
* the first frame of a clip that is in memory.

A decoder has one thread everywhere. The resize of each is named beside it, as not all have the same one. A contender
that cannot be installed or fails is listed with the reason.

Run it as `python benchmarks/video.py [--rows ROW...] [--rounds N] [--json FILE]`. Other rows that are already in the
file stay there, each with the commit at which it was measured. `--prepare` makes the environments and clips, which
takes minutes, and measures nothing.
"""

from __future__ import annotations

from _media_rows import video_rows
from _media_table import run_media
from spdl._cores import available_cores

if __name__ == "__main__":
    raise SystemExit(run_media("Measure reading video.", video_rows(available_cores())))
