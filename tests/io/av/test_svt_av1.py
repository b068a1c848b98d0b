"""The encoder libsvtav1: what it leaves of the thread that opens it, and that nobody waits for it in vain."""

import io
import os
import sys
from typing import Any

import numpy as np
import pytest
from tests.io.processes import passes, say

from spdl.io import (
    Muxer,
    VideoFrames,
    create_reference_video_frame,
    video_encode_config,
)

# Seconds. It takes one.
_LONG = 60

_MISSING = "no such encoder"


def _make(**options: str) -> tuple[Muxer, Any]:
    """Return a muxer and its encoder. The process ends if the FFmpeg in use has none of that name."""
    muxer = Muxer(io.BytesIO(), format="matroska")
    config = video_encode_config(height=64, width=64, frame_rate=25)
    try:
        return muxer, muxer.add_encode_stream(config, encoder="libsvtav1", encoder_config=options)
    except RuntimeError as error:
        if "FFmpeg has no encoder" not in str(error):
            raise
        say(_MISSING)
        sys.exit()


def _passes(function: Any) -> None:
    if _MISSING in passes(function, _LONG):
        pytest.skip("FFmpeg has no encoder libsvtav1")


def _picture() -> VideoFrames:
    return create_reference_video_frame(np.zeros((1, 64, 64, 3), np.uint8), "rgb24", (25, 1), 0)


def _schedule() -> tuple[int, int]:
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def _encodes() -> None:
    schedules = [_schedule()]
    muxer, encoder = _make()
    schedules.append(_schedule())
    with muxer.open():
        assert encoder.encode(_picture()) is None  # Closing writes what is left.
    schedules.append(_schedule())
    assert schedules == schedules[:1] * 3


def _encodes_at_a_policy_of_its_own() -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    _encodes()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    _encodes()


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="needs Linux")
@pytest.mark.parametrize("encodes", [_encodes, _encodes_at_a_policy_of_its_own])
def test_the_thread_keeps_its_place_in_the_queue_for_the_processor(encodes: Any) -> None:
    """A user who may not become real-time is none in any case; root is."""
    _passes(encodes)


def _is_dropped() -> None:
    _make()


def _is_flushed() -> None:
    assert _make()[1].flush() is None


def _is_dropped_with_a_frame() -> None:
    _make()[1].encode(_picture())


def _writes_an_empty_file() -> None:
    with _make()[0].open():
        pass


def _gets_a_wrong_option() -> None:
    with pytest.raises(RuntimeError, match="no_such"):
        _make(no_such="1")


@pytest.mark.parametrize(
    "happens", [_is_dropped, _is_flushed, _is_dropped_with_a_frame, _writes_an_empty_file, _gets_a_wrong_option]
)
def test_an_encoder_without_frames_comes_to_its_end(happens: Any) -> None:
    _passes(happens)
