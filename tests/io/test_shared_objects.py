"""Eight threads on one object at once: each result is right, whatever the others do. Meant for builds without the GIL.

`scripts/thread_sanitizer.sh` runs this module under ThreadSanitizer.
"""

import io
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io import (
    DecodeConfig,
    DemuxConfig,
    EncodeConfig,
    FilterGraph,
    RowWriter,
    convert_frames,
    cpu_storage,
    cuda_config,
    decode_packets,
    demux_image,
    encode_config,
    encode_image,
    get_buffer_desc,
    load_image,
    load_image_batch,
    load_mask_batch,
    random_color_jitter,
    random_resized_crop,
    to_numpy,
    transfer_buffer,
    transfer_buffer_cpu,
)
from spdl.io.utils import get_ffmpeg_filters, get_ffmpeg_license, get_ffmpeg_versions
from spdl.source import PackedOrder
from tests.cuda_driver import FakeDriver
from tests.hammer import ROUNDS, THREADS, assert_agree, hammer
from tests.io.images import encode, make_image, make_jpeg, write_jpegs
from tests.io.inside import instruction_sets, knows_instruction_set, use_each_instruction_set_in_turn


def pixels(buffer: Any) -> bytes:
    return to_numpy(buffer).tobytes()


@pytest.mark.parametrize("data", [make_jpeg(64, 48), encode(make_image(64, 48), "PNG")], ids=["jpeg", "png"])
def test_packets(data: bytes) -> None:
    packets = demux_image(data)
    expected = pixels(load_image(data))
    returned = hammer(
        lambda: (packets.width, packets.height, packets.pix_fmt),
        lambda: (packets.codec.name, packets.codec.time_base, packets.codec.sample_aspect_ratio),
        lambda: pixels(convert_frames(decode_packets(packets.clone()))),
        lambda: repr(packets),
    )
    assert_agree(returned)
    assert returned[0][0][:2] == (64, 48)  # type: ignore[index]
    assert returned[2][0] == expected


def test_packets_that_one_of_the_threads_consumes() -> None:
    data = make_jpeg(64, 48)
    expected = pixels(load_image(data))
    for _ in range(ROUNDS):
        packets = demux_image(data)
        barrier = threading.Barrier(THREADS)

        def use(number: int) -> bytes | None:
            barrier.wait()  # noqa: B023 - all have run before the next round.
            try:
                mine = packets if number == 0 else packets.clone()  # noqa: B023
                return pixels(convert_frames(decode_packets(mine)))
            except TypeError as error:
                assert "were consumed" in str(error)  # noqa: PT017 - either outcome is right.
                return None

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(use, range(THREADS)))
        assert results[0] == expected
        assert set(results[1:]) <= {expected, None}
        assert repr(packets) == "ImagePackets(consumed)"


def test_frames() -> None:
    data = make_jpeg(64, 48)
    frames = decode_packets(demux_image(data))
    returned = hammer(
        lambda: (frames.width, frames.height, frames.pix_fmt, frames.num_planes, frames.pts),
        lambda: frames.metadata,
        lambda: pixels(convert_frames(frames.clone())),
        lambda: repr(frames),
    )
    assert_agree(returned)
    assert returned[2][0] == pixels(load_image(data))


def test_frames_that_one_of_the_threads_consumes() -> None:
    # Large enough that those who look meet the one who converts, and that memory is returned to the system.
    data = make_jpeg(1000, 800)
    expected = pixels(load_image(data))
    for _ in range(ROUNDS):
        frames = decode_packets(demux_image(data))
        barrier = threading.Barrier(THREADS)

        def use(number: int) -> bytes | None:
            barrier.wait()  # noqa: B023 - all have run before the next round.
            if number == 0:
                return pixels(convert_frames(frames))  # noqa: B023
            try:
                assert repr(frames).endswith((", 1000x800, rgb24)", "(consumed)"))  # noqa: B023
                assert (frames.width, frames.metadata, frames.pts) == (1000, {}, 0)  # noqa: B023
                return pixels(convert_frames(frames.clone()))  # noqa: B023
            except TypeError as error:
                assert "were consumed" in str(error)  # noqa: PT017 - either outcome is right.
                return None

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(use, range(THREADS)))
        assert results[0] == expected
        assert set(results[1:]) <= {expected, None}


def test_a_filter_graph() -> None:
    data = make_jpeg(64, 48)
    frames = decode_packets(demux_image(data))
    graph = FilterGraph(f"{get_buffer_desc(frames)},hflip,buffersink")

    def send() -> bytes | None:
        # A thread puts one in before it takes one, so there always is one.
        graph.add_frames(frames.clone())
        taken = graph.get_frames()
        return None if taken is None else pixels(convert_frames(taken))

    returned = hammer(send, graph.dump, lambda: repr(graph))
    assert_agree(returned)
    assert returned[0][0] == to_numpy(load_image(data))[:, ::-1].tobytes()


def test_pixels_that_all_encode() -> None:
    array = np.asarray(make_image(64, 48))
    buffer = load_image(make_jpeg(64, 48))
    png, jpeg = encode_config(format="png"), encode_config(format="jpeg")

    def encoded(data: Any, config: EncodeConfig) -> bytes:
        file = io.BytesIO()
        encode_image(file, data, encode_config=config)
        return file.getvalue()

    returned = hammer(lambda: encoded(array, png), lambda: encoded(buffer, jpeg))
    assert_agree(returned)
    assert returned[0][0] == encoded(array, png)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(encoded(array, png)))), array)


def test_a_codec_outlives_its_packets() -> None:
    packets = [demux_image(make_jpeg(64, 48)) for _ in range(2)]
    codec = packets[0].codec
    returned = hammer(lambda: (codec.name, codec.width, codec.height, codec.pix_fmt), packets.clear)
    assert set(returned[0]) == {("mjpeg", 64, 48, codec.pix_fmt)}


def test_buffers() -> None:
    good = make_jpeg(64, 48)
    buffer = load_image_batch([good, b"broken", good], width=32, height=24, strict=False)
    expected = pixels(buffer)
    returned = hammer(
        lambda: pixels(buffer),
        lambda: (buffer.shape, buffer.dtype, buffer.ndim, buffer.nbytes, len(buffer)),
        lambda: buffer.__array_interface__["data"],
        lambda: np.from_dlpack(buffer).tobytes(),
        lambda: [failure.index for failure in buffer.failures],
        lambda: pixels(pickle.loads(pickle.dumps(buffer, 5))),  # noqa: S301 - written one call before.
        lambda: repr(buffer),
    )
    assert_agree(returned)
    assert returned[0][0] == returned[3][0] == returned[5][0] == expected
    assert returned[4][0] == [1]


def test_buffers_let_go_of_by_the_last_of_many_threads() -> None:
    data = make_jpeg(64, 48)
    expected = pixels(load_image(data))
    for _ in range(ROUNDS):
        held = [load_image(data) for _ in range(THREADS)]
        views = [to_numpy(buffer) for buffer in held]

        def drop(_: int) -> bool:
            try:
                held.pop()  # noqa: B023 - all have run before the next round.
                return views.pop().tobytes() == expected  # noqa: B023
            except IndexError:
                return False

        with ThreadPoolExecutor(THREADS) as pool:
            assert all(pool.map(drop, range(THREADS)))


def test_a_storage_that_all_fill_at_once() -> None:
    storage = cpu_storage(2 * 24 * 32 * 3, pin_memory=False)
    data = make_jpeg(64, 48)
    expected = pixels(load_image_batch([data] * 2, width=32, height=24))

    def fill() -> bytes:
        return pixels(load_image_batch([data] * 2, width=32, height=24, storage=storage))

    returned = hammer(fill, lambda: (storage.nbytes, repr(storage)))
    assert_agree(returned)
    assert returned[0][0] == expected


def test_a_pinned_storage_that_all_fill_at_once(fake_cuda: FakeDriver) -> None:
    data = make_jpeg(64, 48)
    expected = pixels(load_image_batch([data], width=32, height=24))
    storage = cpu_storage(24 * 32 * 3, pin_memory=True)

    def fill() -> bytes:
        buffer = load_image_batch([data], width=32, height=24, storage=storage)
        return pixels(transfer_buffer_cpu(transfer_buffer(buffer, cuda_config=cuda_config(0))))

    returned = hammer(fill, lambda: (storage.nbytes, repr(storage)))
    assert_agree(returned)
    assert returned[0][0] == expected


def test_a_buffer_on_a_gpu(fake_cuda: FakeDriver) -> None:
    buffer, config = load_image(make_jpeg(64, 48)), cuda_config(0)
    there = transfer_buffer(buffer, cuda_config=config)
    address = there.__cuda_array_interface__["data"][0]
    returned = hammer(
        lambda: pixels(transfer_buffer_cpu(there)),
        lambda: pixels(transfer_buffer_cpu(transfer_buffer(buffer, cuda_config=config))),
        lambda: (there.shape, there.dtype, there.ndim, there.nbytes, len(there), there.device_index, repr(there)),
        lambda: there.__cuda_array_interface__["data"][0],
        lambda: (type(there.__dlpack__(stream=1)), tuple(there.__dlpack_device__())),
    )
    assert_agree(returned)
    assert returned[0][0] == returned[1][0] == pixels(buffer)
    assert returned[3][0] == address


def test_options() -> None:
    jpeg, png = make_jpeg(64, 48), encode(make_image(64, 48), "PNG")
    demux, decode = DemuxConfig(format="png_pipe"), DecodeConfig("mjpeg", {"lowres": "1"})
    crop = random_resized_crop([3, 4], seed=5, epoch=6)
    jitter = random_color_jitter([3, 4], seed=5, epoch=6, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
    returned = hammer(
        lambda: pixels(load_image(png, demux_config=demux)),
        lambda: load_image(jpeg, decode_config=decode).shape,
        lambda: pixels(load_image(png, filter_desc="hflip,format=rgb24")),
        lambda: pixels(load_image_batch([jpeg, png], width=16, height=16)),
        lambda: pixels(load_image_batch([jpeg, png], width=16, height=16, dtype="float32", crop=crop, num_threads=2)),
        lambda: pixels(load_image_batch([jpeg, png], width=16, height=16, jitter=jitter, num_threads=2)),
    )
    assert_agree(returned)
    assert returned[0][0] == np.asarray(Image.open(io.BytesIO(png))).tobytes()
    assert returned[1][0] == (24, 32, 3)


def test_one_input_in_many_threads(tmp_path: Path) -> None:
    paths = write_jpegs(tmp_path, 3, 64, 48)
    data = bytearray(Path(paths[0]).read_bytes())
    array = np.frombuffer(data, np.uint8)
    returned = hammer(
        lambda: pixels(load_image(data)),
        lambda: pixels(load_image(array)),
        lambda: pixels(load_image(paths[0])),
        lambda: pixels(load_image_batch([data, *paths], width=32, height=24)),
    )
    assert_agree(returned)
    assert returned[0][0] == returned[1][0] == returned[2][0]


def test_errors_keep_to_their_thread() -> None:
    png = encode(make_image(64, 48), "PNG")
    broken = [png[:40], png[:500], b"no image", b""]

    def fail(data: bytes) -> str:
        with pytest.raises(RuntimeError) as raised:
            load_image(data)
        return str(raised.value)

    alone = [fail(data) for data in broken]
    returned = hammer(*(lambda data=data: fail(data) for data in broken))
    assert_agree(returned)
    assert [values[0] for values in returned] == alone


def test_what_the_module_itself_keeps() -> None:
    returned = hammer(
        instruction_sets,
        use_each_instruction_set_in_turn,
        get_ffmpeg_versions,
        get_ffmpeg_license,
        lambda: len(get_ffmpeg_filters()),
        lambda: load_image_batch([make_jpeg(64, 48)], width=32, height=24).shape,
    )
    assert knows_instruction_set("")
    assert_agree(returned)


def test_the_first_use_in_many_threads() -> None:
    program = (
        "import sys, threading, spdl.io\n"
        f"data, barrier, shapes = {make_jpeg(30, 20)!r}, threading.Barrier({THREADS}), []\n"
        "def use():\n"
        "    barrier.wait()\n"
        "    shapes.append(spdl.io.load_image(data).shape)\n"
        f"threads = [threading.Thread(target=use) for _ in range({THREADS})]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "print(set(shapes), len(shapes))\n"
    )
    for _ in range(3):
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (result.stdout, result.stderr) == (f"{{(20, 30, 3)}} {THREADS}\n", "")


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="this Python always has the GIL")
def test_the_import_leaves_the_gil_off() -> None:
    program = (
        "import sys, spdl.io; before = sys._is_gil_enabled(); spdl.io.CPUBuffer; print(before, sys._is_gil_enabled())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    before, after = result.stdout.split()
    assert before == after
    assert result.stderr == ""


def test_row_writer() -> None:
    lengths = (7, 3, 5)
    documents = [np.arange(length, dtype=np.uint16) for length in lengths]
    order, write = PackedOrder(lengths, 10, shuffle=False), RowWriter(10, vocab_size=7)

    def rows() -> Any:
        return write(order.rows([0, 1]), documents)["tokens"].tolist()

    returned = hammer(rows, lambda: PackedOrder(lengths, 10, shuffle=False).counts)
    assert_agree(returned)
    assert returned[0][0] == [[*range(7), *range(3)], [*range(5), 0, 0, 0, 0, 0]]
    assert returned[1][0] == order.counts


def test_masks_in_arrays() -> None:
    mask = np.arange(12, dtype=np.int32).reshape(3, 4)

    def masks() -> Any:
        return to_numpy(load_mask_batch([mask, mask.T], width=3, height=2, dtype="uint16")).tolist()

    assert_agree(hammer(masks))


def test_every_native_class_is_hammered_here() -> None:
    # A new class needs a test above, in test_shared_archives.py, in av/test_shared_av.py or av/test_nvdec.py, or in
    # dataloader/media/test_image_views.py.
    classes = {name for name, value in vars(native_module()).items() if isinstance(value, type)}
    assert classes == {
        "AudioBsf",
        "AudioCodec",
        "AudioDecoder",
        "AudioEncoder",
        "AudioFrames",
        "AudioPackets",
        "CPUBuffer",
        "CPUStorage",
        "CUDABuffer",
        "ColorJitter",
        "DecodeOptions",
        "DemuxOptions",
        "Demuxer",
        "FilterGraph",
        "GpuVideoDecoder",
        "HeldIds",
        "ImageCodec",
        "ImageFrames",
        "ImagePackets",
        "Labels",
        "LoadOptions",
        "MappedFile",
        "Muxer",
        "NpzArchive",
        "PackingAlgorithm",
        "PixelAugment",
        "RandomCrop",
        "RandomErase",
        "Split",
        "TarBytes",
        "TarParser",
        "TarStream",
        "TarViews",
        "TokenArrays",
        "VideoBsf",
        "VideoCodec",
        "VideoDecoder",
        "VideoEncoder",
        "VideoFrames",
        "VideoPackets",
        "VideoReader",
        "View",
        "WAVHeader",
        "ZstdStream",
    }


def native_module() -> Any:
    return sys.modules[spdl.io.ImagePackets.__module__]
