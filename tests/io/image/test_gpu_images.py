"""Images that a GPU decodes, on one made of main memory: pixels, what goes where, failures, and what is left behind.

The kernels are the real ones, compiled for the processor, and nvJPEG is FFmpeg's decoder, whose inverse DCT rounds
otherwise than ours. Where all blocks are flat there is nothing to round, and the results must be equal.
"""

import contextlib
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.gpu_libraries import FakeGpu
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import (
    CUDABuffer,
    LoadError,
    cpu_storage,
    cuda_config,
    decode_config,
    decode_image_nvjpeg,
    load_image_batch,
    load_image_batch_nvjpeg,
    random_resized_crop,
    to_numpy,
    transfer_buffer_cpu,
)
from spdl.io.utils import built_with_nvjpeg

MEAN = 1.0
PSNR = 38.0


def pixels(buffer: CUDABuffer) -> Any:
    return to_numpy(transfer_buffer_cpu(buffer))


def flat_jpeg(width: int, height: int, seed: int, subsampling: str, **options: Any) -> bytes:
    """Return a JPEG all of whose blocks, of luma and of chroma, have one value."""
    rng = np.random.default_rng(seed)
    across, down = {"4:4:4": (1, 1), "4:2:2": (2, 1), "4:2:0": (2, 2)}[subsampling]
    planes = []
    for x, y in ((1, 1), (across, down), (across, down)):
        blocks = rng.integers(2, 30, (height // (8 * y) + 1, width // (8 * x) + 1)) * 8
        planes.append(np.kron(blocks, np.ones((8 * y, 8 * x)))[:height, :width].astype(np.uint8))
    image = Image.merge("YCbCr", [Image.fromarray(plane) for plane in planes])
    file = io.BytesIO()
    # A quantisation by 1 keeps every value.
    image.save(file, "JPEG", subsampling=subsampling, qtables=[[1] * 64, [1] * 64], **options)
    return file.getvalue()


def compare(got: Any, expected: Any) -> None:
    difference = got.astype(np.float64) - expected
    assert np.abs(difference).mean() <= MEAN
    assert 10 * np.log10(255**2 / max(float((difference**2).mean()), 1e-9)) >= PSNR


# ---- pixels ----------------------------------------------------------------------------------------------------


CASES = st.fixed_dictionaries(
    {
        "size": st.tuples(st.integers(1, 70), st.integers(1, 70)),
        "subsampling": st.sampled_from(("4:4:4", "4:2:2", "4:2:0")),
        "seed": st.integers(0, 1000),
        "options": st.fixed_dictionaries(
            {
                "width": st.integers(1, 50),
                "height": st.integers(1, 50),
                "interpolation": st.sampled_from(("nearest", "area", "bilinear", "bicubic", "lanczos")),
                "mode": st.sampled_from(("pad", "stretch", "crop")),
                "pix_fmt": st.sampled_from(("rgb24", "bgr24", "gray")),
            }
        ),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CASES)
def test_where_nothing_is_rounded_the_pixels_are_those_of_the_cpu(fake_gpu: FakeGpu, case: dict[str, Any]) -> None:
    options = case["options"]
    width, height = case["size"]
    jpegs = [flat_jpeg(width, height, case["seed"] + i, case["subsampling"]) for i in range(16)]
    there = load_image_batch(jpegs, device_config=cuda_config(0), **options)
    assert set(there.backends) == {"nvjpeg"}
    np.testing.assert_array_equal(pixels(there), to_numpy(load_image_batch(jpegs, **options)))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_values_and_layouts_are_those_of_the_cpu(fake_gpu: FakeGpu, layout: Any, dtype: Any) -> None:
    jpegs = [flat_jpeg(40 + i, 60 - i, i, "4:2:0") for i in range(16)]
    options: Any = {"width": 32, "height": 24, "layout": layout, "dtype": dtype}
    if dtype != "uint8":
        options |= {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    there = load_image_batch(jpegs, device_config=cuda_config(0), **options)
    expected = to_numpy(load_image_batch(jpegs, **options))
    assert (there.shape, there.dtype) == (expected.shape, dtype)
    np.testing.assert_array_equal(pixels(there), expected)


def test_crops_flips_and_orientations_are_those_of_the_cpu(fake_gpu: FakeGpu) -> None:
    jpegs = []
    for orientation in range(16):
        exif = Image.Exif()
        exif[0x0112] = orientation % 8 + 1
        jpegs.append(flat_jpeg(64, 40, orientation, "4:2:0", exif=exif))
    flips: Any = [bool(i // 4 % 2) for i in range(16)]
    crop = random_resized_crop(seed=1, epoch=0, indices=range(16))
    options: Any = {"width": 20, "height": 30, "mode": "crop", "flip": flips}
    cases: tuple[dict[str, Any], ...] = ({"crop": crop}, {"crop": [(3, 5, 33, 27)] * 16}, {})
    for more in cases:
        there = load_image_batch(jpegs, device_config=cuda_config(0), **options, **more)
        np.testing.assert_array_equal(pixels(there), to_numpy(load_image_batch(jpegs, **options, **more)))


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_photos_are_within_a_level_of_the_cpu(fake_gpu: FakeGpu, subsampling: str) -> None:
    jpegs = [make_jpeg(200 + 7 * i, 150 + 3 * i, i, subsampling=subsampling) for i in range(16)]
    for width, height in ((96, 80), (224, 224)):
        there = load_image_batch(jpegs, width=width, height=height, device_config=cuda_config(0))
        assert set(there.backends) == {"nvjpeg"}
        compare(pixels(there), to_numpy(load_image_batch(jpegs, width=width, height=height)))


def test_images_of_any_size_are_decoded_in_one_batch(fake_gpu: FakeGpu) -> None:
    jpegs = [flat_jpeg(*size, 3, "4:2:0") for size in ((1, 1), (2, 3), (5, 17), (300, 9), (9, 300), (128, 128))] * 3
    there = load_image_batch(jpegs, width=31, height=33, device_config=cuda_config(0))
    np.testing.assert_array_equal(pixels(there), to_numpy(load_image_batch(jpegs, width=31, height=33)))


# ---- who decodes what ------------------------------------------------------------------------------------------


def others() -> dict[str, bytes]:
    """Return images that nvJPEG does not decode, or not as we do."""
    whole = make_jpeg(60, 50)
    return {
        "progressive": make_jpeg(60, 50, progressive=True),
        "cmyk": encode(make_image(60, 50).convert("CMYK"), "JPEG"),
        "rgb": make_jpeg(60, 50, keep_rgb=True),
        "png": encode(make_image(60, 50), "PNG"),
        "garbage behind the end": whole + b"some more bytes",
    }


def test_the_cpu_decodes_what_nvjpeg_does_not_in_the_same_batch(fake_gpu: FakeGpu) -> None:
    odd = others()
    sources = [make_jpeg(60, 50, i) for i in range(16)]
    for place, data in enumerate(odd.values()):
        sources.insert(3 * place, data)
    there = load_image_batch(sources, width=30, height=25, device_config=cuda_config(0))
    here = load_image_batch(sources, width=30, height=25)
    for place, name in enumerate(odd):
        expected = "nvjpeg" if name.startswith("garbage") else here.backends[3 * place]
        assert there.backends[3 * place] == expected, name
    assert there.backends.count("nvjpeg") == 17
    compare(pixels(there), to_numpy(here))


def test_a_chip_without_an_engine_decodes_by_kernels(fake_gpu: FakeGpu) -> None:
    jpegs = [make_jpeg(60, 50, i) for i in range(16)]

    def forget_decoders() -> None:
        # Those that fail are not kept; earlier tests may have left several.
        while fake_gpu.jpeg_objects:
            fake_gpu.driver.fail("nvjpegDecodeBatched", 6)
            with pytest.raises(RuntimeError, match="EXECUTION_FAILED"):
                load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
        fake_gpu.driver.reset()

    for hardware in (False, True):
        forget_decoders()
        fake_gpu.set_jpeg(hardware=hardware)
        fake_gpu.driver.fail("nvjpegCreateEx", 8 if hardware else 0)
        there = load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
        assert (fake_gpu.driver.calls("hardware images"), fake_gpu.driver.calls("hybrid images")) == (0, 16)
        compare(pixels(there), to_numpy(load_image_batch(jpegs, width=30, height=25)))
    forget_decoders()


def test_an_engine_decodes_what_it_can_and_kernels_the_rest(fake_gpu: FakeGpu) -> None:
    jpegs = [make_jpeg(60, 50, i) for i in range(20)]
    fake_gpu.set_jpeg(takes=len(jpegs[0]))
    there = load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
    small = sum(len(jpeg) <= len(jpegs[0]) for jpeg in jpegs)
    assert (fake_gpu.driver.calls("hardware images"), fake_gpu.driver.calls("hybrid images")) == (small, 20 - small)
    compare(pixels(there), to_numpy(load_image_batch(jpegs, width=30, height=25)))


def test_the_cpu_decodes_small_batches_and_where_it_was_asked_for(fake_gpu: FakeGpu) -> None:
    jpegs = [make_jpeg(60, 50, i) for i in range(16)]
    config = cuda_config(0)
    ask: list[tuple[int, dict[str, Any]]] = [
        (15, {}),
        (16, {"decode_config": decode_config(backend="libjpeg-turbo")}),
        (16, {"storage": cpu_storage(16 * 30 * 25 * 3)}),
        (16, {"height": None}),
    ]
    for count, options in ask:
        size = {"width": 30, "height": 25}
        there = load_image_batch(jpegs[:count], device_config=config, **(size | options))
        assert set(there.backends) == {"libjpeg-turbo"}
    assert fake_gpu.driver.calls("nvjpegDecodeBatched") == 0


# ---- failures --------------------------------------------------------------------------------------------------


def test_failures_are_those_of_the_cpu(fake_gpu: FakeGpu) -> None:
    whole = make_jpeg(60, 50)
    sources = [make_jpeg(60, 50, i) for i in range(16)]
    sources[2] = whole[:400]
    sources[5] = b"no image"
    sources[9] = whole[:-500] + b"\xff\xd9"
    sources += sources[10:16]
    for on_error in ("skip", "zero", "partial"):
        options: Any = {"width": 30, "height": 25, "on_error": on_error}
        there = load_image_batch(sources, device_config=cuda_config(0), **options)
        here = load_image_batch(sources, **options)
        assert [(each.index, each.reason) for each in there.failures] == [
            (each.index, each.reason) for each in here.failures
        ]
        assert there.shape == here.shape
        compare(pixels(there), to_numpy(here))
    with pytest.raises(LoadError, match="of 22 images could not be loaded"):
        load_image_batch(sources, width=30, height=25, device_config=cuda_config(0))


def test_a_missing_file_fails_as_on_the_cpu(fake_gpu: FakeGpu) -> None:
    sources = [*(make_jpeg(60, 50, i) for i in range(16)), "/nowhere/photo.jpg"]
    there = load_image_batch(sources, width=30, height=25, device_config=cuda_config(0), on_error="skip")
    assert there.shape == (16, 25, 30, 3)
    assert "No such file" in there.failures[0].reason


def test_if_nvjpeg_refuses_an_image_the_cpu_loads_the_batch(fake_gpu: FakeGpu) -> None:
    jpegs = [make_jpeg(60, 50, i) for i in range(16)]
    for status in (3, 4, 10):
        fake_gpu.driver.fail("nvjpegDecodeBatched", status)
        there = load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
        assert set(there.backends) == {"libjpeg-turbo"}
        np.testing.assert_array_equal(pixels(there), to_numpy(load_image_batch(jpegs, width=30, height=25)))


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        ("nvjpegDecodeBatched", 6, "nvjpegDecodeBatched returned 6, NVJPEG_STATUS_EXECUTION_FAILED"),
        ("nvjpegDecodeBatchedInitialize", 5, "returned 5, NVJPEG_STATUS_ALLOCATOR_FAILURE .out of memory."),
        ("cuLaunchKernel", 700, "running convert_planes failed: cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuMemAllocFromPoolAsync", 2, "cuMemAllocFromPoolAsync returned CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuMemcpyHtoDAsync_v2", 700, "cuMemcpyHtoDAsync returned CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuEventSynchronize", 700, "cuEventSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_what_fails_is_named_and_nothing_is_left(fake_gpu: FakeGpu, call: str, status: int, message: str) -> None:
    before = fake_gpu.jpeg_objects
    # A batch of another size, for which decoders are not prepared yet.
    jpegs = [make_jpeg(61 + i, 50, i) for i in range(19 if call.endswith("Initialize") else 17)]
    fake_gpu.driver.fail(call, status)
    with pytest.raises(RuntimeError, match=message):
        load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
    for after in range(1, 4):
        fake_gpu.driver.fail(call, status, after)
        with contextlib.suppress(RuntimeError):  # If it makes as many calls.
            load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
    fake_gpu.driver.reset()
    # Decoders that failed are destroyed, and the others are kept: three objects each, for the engine and the kernels.
    assert fake_gpu.jpeg_objects <= max(before, 6)
    there = load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0))
    compare(pixels(there), to_numpy(load_image_batch(jpegs, width=30, height=25)))


def test_work_takes_its_time_and_is_done_when_the_call_returns(fake_gpu: FakeGpu) -> None:
    fake_gpu.driver.set_latency(0.001)
    jpegs = [make_jpeg(60, 50, i) for i in range(16)]
    there = load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0, 7))
    assert fake_gpu.driver.copies_under_way == 0
    compare(pixels(there), to_numpy(load_image_batch(jpegs, width=30, height=25)))


def test_threads_decode_at_once(fake_gpu: FakeGpu) -> None:
    batches = [[make_jpeg(60 + number, 50, 20 * number + i) for i in range(16)] for number in range(4)]
    expected = [to_numpy(load_image_batch(jpegs, width=30, height=25)) for jpegs in batches]
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(4):
            config = cuda_config(0, 10 + number)
            there = load_image_batch(batches[number], width=30, height=25, device_config=config)
            assert set(there.backends) == {"nvjpeg"}
            compare(pixels(there), expected[number])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_an_allocator_lends_the_memory(fake_gpu: FakeGpu) -> None:
    memory = np.zeros(16 * 30 * 25 * 3, np.uint8)
    asked: list[Any] = []

    def allocate(*what: int) -> int:
        asked.append(what)
        return int(memory.ctypes.data)

    jpegs = [make_jpeg(60, 50, i) for i in range(16)]
    there = load_image_batch(jpegs, width=30, height=25, device_config=cuda_config(0, 7, (allocate, asked.append)))
    assert asked == [(memory.nbytes, 0, 7)]
    compare(memory.reshape(16, 25, 30, 3), to_numpy(load_image_batch(jpegs, width=30, height=25)))
    del there
    assert asked[1:] == [memory.ctypes.data]


# ---- the functions of 0.8.0 ------------------------------------------------------------------------------------


def test_one_image_and_several_are_decoded_to_planes(fake_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    assert built_with_nvjpeg() is True
    jpeg = flat_jpeg(48, 32, 5, "4:2:0")
    expected = to_numpy(load_image_batch([jpeg], width=48, height=32, layout="NCHW"))
    one = decode_image_nvjpeg(jpeg)
    assert one.shape == (3, 32, 48)
    np.testing.assert_array_equal(pixels(one), expected[0])
    two = decode_image_nvjpeg([jpeg, jpeg], device_config=cuda_config(0), pix_fmt="bgr")
    np.testing.assert_array_equal(pixels(two), np.stack([expected[0, ::-1]] * 2))
    scaled = decode_image_nvjpeg([jpeg], scale_width=20, scale_height=10)
    resized = load_image_batch([jpeg], width=20, height=10, mode="stretch", layout="NCHW", exif=False)
    np.testing.assert_array_equal(pixels(scaled), to_numpy(resized))
    fake_gpu.driver.set_devices(2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert decode_image_nvjpeg(jpeg).device_index == 1
    monkeypatch.setenv("LOCAL_RANK", "no number")
    with pytest.raises(ValueError, match="LOCAL_RANK must be the number of this process's GPU"):
        decode_image_nvjpeg(jpeg)


def test_wrong_arguments_and_images_are_named(fake_gpu: FakeGpu) -> None:
    jpeg, config = make_jpeg(48, 32), cuda_config(0)
    with pytest.raises(LoadError, match="1 of 2 images could not be decoded\n  image 1: "):
        load_image_batch_nvjpeg([jpeg, jpeg[:300]], device_config=config, width=20, height=10)
    with pytest.raises(ValueError, match=r"must have one size, got .*Give both width and height"):
        load_image_batch_nvjpeg([jpeg, make_jpeg(20, 20)], device_config=config, width=None, height=None)
    wrong: Any = "yuv"
    with pytest.raises(ValueError, match="`pix_fmt` must be 'rgb' or 'bgr', got 'yuv'"):
        decode_image_nvjpeg(jpeg, pix_fmt=wrong)
    wrong = 0
    with pytest.raises(TypeError, match="`device_config` must be a CUDAConfig"):
        load_image_batch_nvjpeg([jpeg], device_config=wrong, width=20, height=10)
    with pytest.raises(ValueError, match="at least one input"):
        decode_image_nvjpeg([])
