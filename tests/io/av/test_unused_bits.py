"""WAV files that use fewer bits of a sample than it takes, such as 24 of 32: the rest is zero, at the lower end.

FFmpeg takes the samples of such a file for as short as their used bits. The oracle is NumPy's view of the samples.
"""

from __future__ import annotations

import io
import struct
from uuid import UUID

import numpy as np
import pytest

from spdl.io import AudioReader, load_audio, load_audio_batch, load_wav, to_numpy

_RATE = 16000
_INTEGERS = 1
_FLOATS = 3


def _chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(content) if size is None else size) + content


def _wav(samples: np.ndarray, used: int, *, kind: int = _INTEGERS, large: bool = False) -> bytes:
    """Make a file that says that so many bits are used; with `large` one of 64-bit sizes that were never filled in."""
    channels, size = samples.shape[1], samples.itemsize
    header = struct.pack(
        "<HHIIHHHHI", 0xFFFE, channels, _RATE, _RATE * channels * size, channels * size, 8 * size, 22, used, 3
    )
    guid = UUID(f"{kind:08x}-0000-0010-8000-00aa00389b71").bytes_le
    sizes = _chunk(b"ds64", bytes(28)) if large else b""
    data = _chunk(b"data", samples.tobytes(), 0xFFFFFFFF if large else None)
    body = b"WAVE" + sizes + _chunk(b"fmt ", header + guid) + data
    return _chunk(b"RF64" if large else b"RIFF", body, 0xFFFFFFFF if large else None)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("bits", "used"), [(32, 24), (32, 20), (32, 16), (32, 8), (16, 12), (16, 8)])
def test_load_audio_reads_integers_of_which_some_bits_are_used(bits: int, used: int, *, large: bool) -> None:
    whole = np.random.default_rng(bits + used).integers(-(2 ** (used - 1)), 2 ** (used - 1), (3000, 2))
    samples = (whole << (bits - used)).astype(f"<i{bits // 8}")
    data = _wav(samples, used, large=large)
    np.testing.assert_array_equal(load_wav(data), samples)
    expected = (whole / 2.0 ** (used - 1)).astype(np.float32).T
    np.testing.assert_array_equal(to_numpy(load_audio(data)), expected)
    np.testing.assert_array_equal(to_numpy(load_audio(data, timestamp=("1/16", "1/8"))), expected[:, 1000:2000])
    np.testing.assert_array_equal(to_numpy(load_audio(io.BytesIO(data))), expected)
    reader = AudioReader(data)
    assert (reader.num_samples, reader.num_channels) == (3000, 2)
    np.testing.assert_array_equal(to_numpy(reader.read_samples(100, 200)), expected[:, 100:200])
    batch = load_audio_batch([data], sample_rate=None, num_channels=None)
    np.testing.assert_array_equal(to_numpy(batch.samples)[0], expected)


def test_load_audio_reads_floats_that_say_a_wrong_number_of_bits() -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, (3000, 2)).astype("<f4")
    np.testing.assert_array_equal(to_numpy(load_audio(_wav(samples, 24, kind=_FLOATS))), samples.T)


class _Piped:
    def __init__(self, data: bytes) -> None:
        self.read = io.BytesIO(data).read


@pytest.mark.parametrize(("bits", "used"), [(32, 24), (32, 16), (16, 8), (32, 30), (16, 12), (16, 16)])
def test_load_audio_reads_unused_bits_only_from_what_can_seek(bits: int, used: int) -> None:
    whole = np.random.default_rng(used).integers(-(2 ** (used - 1)), 2 ** (used - 1), (3000, 2))
    data = _wav((whole << (bits - used)).astype(f"<i{bits // 8}"), used)
    expected = to_numpy(load_audio(data))
    if -(-used // 8) == bits // 8:
        np.testing.assert_array_equal(to_numpy(load_audio(_Piped(data))), expected)
    else:
        with pytest.raises(RuntimeError, match=r"some bits are unused.*a source that can seek: pass its bytes"):
            load_audio(_Piped(data))
