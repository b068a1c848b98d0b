"""A sound so short that resampling leaves nothing of it is an empty sound, not a failed one."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest
from tests.io.av import oracle

from spdl.io import (
    AudioReader,
    convert_frames,
    decode_packets,
    demux_audio,
    get_audio_filter_desc,
    load_audio,
    load_audio_batch,
    to_numpy,
)


def short(count: int, rate: int = 48000, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes((np.arange(count * channels) * 300 % 20000).astype("<i2").tobytes())
    return file.getvalue()


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 96000])
@pytest.mark.parametrize("count", [1, 2, 5, 17, 100, 200, 1000])
def test_as_many_samples_as_the_command_leaves(count: int, rate: int, tmp_path: Any) -> None:
    data = short(count)
    path = tmp_path / "short.wav"
    path.write_bytes(data)
    expected = oracle.samples(path, rate=rate).shape[0]
    for dtype in ("float32", "int16"):
        reader = AudioReader(data, sample_rate=rate, dtype=dtype)
        assert reader.num_samples == expected
        found = to_numpy(reader.read())
        assert (found.shape, found.dtype) == ((1, expected), np.dtype(dtype))
        assert reader.duration == count / 48000
    desc = get_audio_filter_desc(sample_rate=rate)
    assert load_audio(data, filter_desc=desc).shape == (1, expected)
    batch = load_audio_batch([data], sample_rate=rate)
    assert (batch.samples.shape, batch.lengths) == ((1, 1, expected), [expected])


def test_one_among_others() -> None:
    for num_frames in (None, 500):
        batch = load_audio_batch(
            [short(100), short(48000), short(0x1000)], sample_rate=8000, num_frames=num_frames, on_error="skip"
        )
        assert batch.samples.failures == ()
        assert batch.lengths[0] == 0
        assert batch.lengths[1] == (num_frames or 8000)
        rows = to_numpy(batch.samples)
        assert rows.shape[0] == 3
        assert not rows[0].any()
        assert rows[1].any()


def test_the_form_is_known() -> None:
    frames = decode_packets(demux_audio(short(100, channels=2)), get_audio_filter_desc(sample_rate=8000))
    assert (len(frames), frames.num_channels, frames.sample_rate, frames.sample_fmt) == (0, 2, 8000, "fltp")
    assert convert_frames(frames.clone()).shape == (2, 0)
    assert to_numpy(convert_frames([frames])).shape == (1, 2, 0)
    with pytest.raises(IndexError, match="before the end of the sound, which has 0 samples"):
        AudioReader(short(100), sample_rate=8000).read_samples(0, 10)


def test_a_window_outside_is_still_an_error() -> None:
    desc = get_audio_filter_desc(sample_rate=8000)
    with pytest.raises(RuntimeError, match="the window may lie outside of the stream"):
        load_audio(short(100), timestamp=(1, 2), filter_desc=desc)
    with pytest.raises(RuntimeError, match="there is no sound within the window"):
        load_audio_batch([short(100)], sample_rate=8000, timestamps=[(1, 2)])
