"""The rate and the duration of a `VideoReader` are those of its frames, also where the container states another rate.

The oracle is what the ffprobe command says about when frames are shown.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median_high
from typing import TYPE_CHECKING

import pytest
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg, run_ffprobe

from spdl.io import VideoReader, load_video_batch

if TYPE_CHECKING:
    from pathlib import Path

# When the Nth frame is shown, in milliseconds.
_VARIABLE = {
    "pause": "N*40+if(gt(N\\,6)\\,900\\,0)",
    "jitter": "N*37+mod(N*7\\,5)*6",
    "slower": "N*40+N*N",
}


def _moments(path: Path) -> list[float]:
    shown = run_ffprobe("-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path)
    return [float(line) for line in shown.replace(b",", b"").split()]


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize("kind", _VARIABLE)
def test_fps_is_the_average_of_a_variable_rate(kind: str, container: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.{container}"
    codec = need_encoder("mpeg4")
    pictures = f"testsrc2=size=32x32:rate=25,settb=1/1000,setpts={_VARIABLE[kind]}"
    timed = ("-fps_mode", "passthrough", "-enc_time_base", "1/1000")
    run_ffmpeg("-f", "lavfi", "-i", pictures, "-frames:v", 40, *timed, "-c:v", codec, path)
    moments = _moments(path)
    reader = VideoReader(path)
    span = moments[-1] - moments[0]
    # A stated rate is taken if the frames come at that rate but for half a frame in all.
    assert reader.fps * span == pytest.approx(39, abs=0.51)
    last = reader.duration - span
    assert last == pytest.approx(median_high(b - a for a, b in pairwise(moments)), rel=0.1)
    # The last frame stays on the screen as long as that.
    window = moments[-1] + 0.9 * last, moments[-1] + 10
    batch = load_video_batch([path], num_frames=2, width=8, height=8, fps=1000, timestamps=[window])
    assert batch.lengths[0] > 0


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "avi"])
@pytest.mark.parametrize(("stated", "rate"), [("30000/1001", 30000 / 1001), ("25", 25.0), ("50", 50.0)])
def test_fps_is_the_stated_rate_of_frames_that_come_at_it(
    stated: str, rate: float, container: str, tmp_path: Path
) -> None:
    path = tmp_path / f"constant.{container}"
    codec = need_encoder("mpeg4")
    run_ffmpeg("-f", "lavfi", "-i", f"testsrc2=size=32x32:rate={stated}", "-frames:v", 30, "-c:v", codec, path)
    reader = VideoReader(path)
    assert reader.fps == rate
    assert reader.duration == pytest.approx(30 / rate, abs=2e-3)
