"""HE-AAC, of which the decoder gives twice the samples that the container counts, or twice the channels."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.he_aac import as_he_aac

from spdl.io import AudioReader, demux_audio, get_audio_filter_desc, load_audio, load_audio_batch, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 3


_KINDS = {"stereo": (24000, 2, False), "mono": (22050, 1, False), "parametric": (24000, 1, True)}


@pytest.fixture(scope="module", params=_KINDS)
def he_aac(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """Return a file, the rate of its sound, and how many channels it has.

    That of one channel may hold parametric stereo without saying so, and FFmpeg takes it for granted.
    """
    rate, channels, stereo = _KINDS[request.param]
    tmp_path = tmp_path_factory.mktemp("he_aac")
    source = f"aevalsrc='0.4*sin(2*PI*(300+200*t)*t)':s={rate}:d={_SECONDS}"
    plain = tmp_path / "plain.m4a"
    run_ffmpeg("-f", "lavfi", "-i", source, "-ac", channels, "-c:a", need_encoder("aac"), "-aac_pns", 0, plain)
    path = tmp_path / "he_aac.m4a"
    path.write_bytes(as_he_aac(plain, rate, channels, stereo=stereo))
    return path, 2 * rate, int(oracle.streams(path)[0]["channels"])


def test_the_whole_sound(he_aac: tuple[Path, int, int]) -> None:
    path, rate, channels = he_aac
    found = to_numpy(load_audio(path))
    codec = demux_audio(path).codec
    assert (codec.name, codec.sample_rate, codec.num_channels) == ("aac", rate, channels)
    assert found.shape[0] == channels
    assert abs(found.shape[1] - _SECONDS * rate) <= 4096
    assert np.abs(found).max() > 0.2
    expected = oracle.samples(path).T
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-3


@pytest.mark.parametrize("window", [("0.5", "1.25"), ("1.00001", "1.00302"), (2, 10), (0, "0.01")])
def test_a_window_is_a_part_of_the_whole(he_aac: tuple[Path, int, int], window: tuple[str, str]) -> None:
    path, rate, _ = he_aac
    whole = to_numpy(load_audio(path))
    first, last = (int(np.ceil(float(bound) * rate)) for bound in window)
    found = to_numpy(load_audio(path, timestamp=window))
    assert found.shape[1] == min(last, whole.shape[1]) - first
    # The upper band has filters of its own, which fade.
    np.testing.assert_allclose(found, whole[:, first:last], atol=1e-4)


def test_a_reader_of_parts(he_aac: tuple[Path, int, int]) -> None:
    path, rate, channels = he_aac
    whole = to_numpy(load_audio(path))
    with AudioReader(path) as reader:
        assert (reader.sample_rate, reader.num_channels, reader.num_samples) == (rate, channels, whole.shape[1])
        for first, last in ((0, 5), (70_000, 70_001), (30_000, 90_000), (whole.shape[1] - 3, whole.shape[1])):
            part = to_numpy(reader.read_samples(first, last))
            np.testing.assert_allclose(part, whole[:, first:last], atol=1e-4)


def test_a_batch(he_aac: tuple[Path, int, int]) -> None:
    path, _, _ = he_aac
    desc = get_audio_filter_desc(sample_rate=16000, num_channels=1)
    expected = to_numpy(load_audio(path, filter_desc=desc))
    batch = load_audio_batch([path, io.BytesIO(path.read_bytes())], sample_rate=16000)
    assert batch.lengths == [expected.shape[1]] * 2
    assert np.array_equal(to_numpy(batch.samples)[0], expected)
