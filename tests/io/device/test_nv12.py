"""Colours of decoded frames: the kernel against matrices in double precision."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gpu_libraries import FakeGpu
from tests.io.device.yuv_colors import SHARES, yuv_to_rgb
from tests.io.inside import buffer_of

from spdl.io import (
    CUDABuffer,
    cuda_config,
    nv12_to_bgr,
    nv12_to_rgb,
    to_numpy,
    transfer_buffer,
    transfer_buffer_cpu,
)


def upload(frames: Any) -> CUDABuffer:
    return transfer_buffer(buffer_of(frames), device_config=cuda_config(0))


def pixels(buffer: CUDABuffer) -> Any:
    return to_numpy(transfer_buffer_cpu(buffer))


CASES = st.fixed_dictionaries(
    {
        "matrix": st.sampled_from(sorted(SHARES)),
        "full_range": st.booleans(),
        "count": st.integers(1, 3),
        "sides": st.tuples(st.integers(1, 20), st.integers(1, 20)),
        "seed": st.integers(0, 1000),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CASES)
def test_colours_are_those_of_the_matrices(fake_gpu: FakeGpu, case: dict[str, Any]) -> None:
    (width, height), matrix, full = case["sides"], case["matrix"], case["full_range"]
    frames = np.random.default_rng(case["seed"]).integers(0, 256, (case["count"], 3 * height, 2 * width), np.uint8)
    there = nv12_to_rgb(upload(frames), device_config=cuda_config(0), coeff=matrix, full_range=full)
    assert there.shape == (len(frames), 3, 2 * height, 2 * width)
    # The nearest whole number, up to the places that factors have.
    assert np.abs(pixels(there) - yuv_to_rgb(frames, matrix, full_range=full)).max() <= 0.51
    other = nv12_to_bgr(upload(frames), device_config=cuda_config(0), coeff=matrix, full_range=full)
    np.testing.assert_array_equal(pixels(other)[:, ::-1], pixels(there))


def test_buffers_are_joined(fake_gpu: FakeGpu) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (5, 12, 6), np.uint8)
    buffers = [upload(frames[:2]), upload(frames[2]), upload(frames[3:])]
    there = nv12_to_rgb(buffers, device_config=cuda_config(0, 7))
    np.testing.assert_array_equal(
        pixels(there), pixels(nv12_to_rgb(upload(frames), device_config=cuda_config(0), sync=True))
    )


def test_wrong_arguments_are_named(fake_gpu: FakeGpu) -> None:
    config = cuda_config(0)
    good = upload(np.zeros((1, 12, 6), np.uint8))
    wrong: Any = "wrong"
    with pytest.raises(ValueError, match=r"`coeff` must be one of 1 \(BT.709\), 4 .*got 3"):
        nv12_to_rgb(good, device_config=config, coeff=3)
    with pytest.raises(TypeError, match="`device_config` must be a CUDAConfig"):
        nv12_to_rgb(good, device_config=wrong)
    with pytest.raises(TypeError, match="`buffers` must be a CUDABuffer of NV12 frames"):
        nv12_to_rgb([wrong], device_config=config)
    with pytest.raises(ValueError, match="`buffers` must be at least one buffer"):
        nv12_to_bgr([], device_config=config)
    for shape in ((1, 11, 6), (1, 12, 5), (1, 2, 12, 6), (6,)):
        with pytest.raises(ValueError, match="NV12 frames"):
            nv12_to_rgb(upload(np.zeros(shape, np.uint8)), device_config=config)
    with pytest.raises(ValueError, match="the frames must have one size"):
        nv12_to_rgb([good, upload(np.zeros((1, 12, 8), np.uint8))], device_config=config)
