"""FilterGraph: images through graphs of FFmpeg's filters, which may have several inputs and outputs."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.io.image.test_ffmpeg import REMEDY
from tests.io.images import Array, encode, make_image, make_jpeg

from spdl.io import (
    FilterGraph,
    ImageFrames,
    convert_frames,
    decode_packets,
    demux_image,
    get_buffer_desc,
    load_image,
    to_numpy,
)

SOURCE = "buffer=video_size=61x43:pix_fmt=rgb24:time_base=1/25:pixel_aspect=0/1"


def frames_of(
    seed: int = 0, *, size: tuple[int, int] = (61, 43), filter_desc: Any = "format=pix_fmts=rgb24"
) -> ImageFrames:
    return decode_packets(demux_image(encode(make_image(*size, seed), "PNG")), filter_desc=filter_desc)


def pixels(seed: int = 0, size: tuple[int, int] = (61, 43)) -> Array:
    return np.asarray(make_image(*size, seed))


def taken(graph: FilterGraph, key: str | None = None) -> Array:
    frames = graph.get_frames(key=key)
    assert frames is not None
    array: Array = to_numpy(convert_frames(frames))
    return array


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ("null", np.s_[:, :]),
        ("hflip", np.s_[:, ::-1]),
        ("vflip", np.s_[::-1]),
        ("hflip,vflip", np.s_[::-1, ::-1]),
        ("crop=w=20:h=10:x=3:y=7", np.s_[7:17, 3:23]),
    ],
)
@pytest.mark.parametrize("size", [(61, 43), (1, 1), (16, 16), (127, 3)])
def test_a_chain(filters: str, index: Any, size: tuple[int, int]) -> None:
    if "crop" in filters and size != (61, 43):
        size = (64, 40)
    graph = FilterGraph(f"{get_buffer_desc(frames_of(size=size))},{filters},buffersink")
    for seed in range(4):
        graph.add_frames(frames_of(seed, size=size))
        np.testing.assert_array_equal(taken(graph), pixels(seed, size)[index])
        assert graph.get_frames() is None


def test_transposed() -> None:
    graph = FilterGraph(f"{SOURCE},transpose=dir=cclock_flip,buffersink")
    graph.add_frames(frames_of())
    np.testing.assert_array_equal(taken(graph), pixels().transpose(1, 0, 2))


@pytest.mark.parametrize(("stack", "axis"), [("hstack", 1), ("vstack", 0)])
def test_several_inputs(stack: str, axis: int) -> None:
    first, second = (get_buffer_desc(frames_of(), label) for label in ("in0", "in1"))
    graph = FilterGraph(f"{first} [a]; {second} [b]; [a] [b] {stack}, buffersink")
    for turn in range(3):
        graph.add_frames(frames_of(2 * turn), key="buffer@in0")
        assert graph.get_frames() is None
        graph.add_frames(frames_of(2 * turn + 1), key="buffer@in1")
        expected = np.concatenate([pixels(2 * turn), pixels(2 * turn + 1)], axis)
        np.testing.assert_array_equal(taken(graph), expected)


def test_several_outputs() -> None:
    graph = FilterGraph(f"{SOURCE},split [a] [b]; [a] buffersink@whole; [b] hflip, buffersink@flipped")
    for seed in range(3):
        graph.add_frames(frames_of(seed))
    for seed in range(3):
        np.testing.assert_array_equal(taken(graph, "buffersink@flipped"), pixels(seed)[:, ::-1])
    for seed in range(3):
        np.testing.assert_array_equal(taken(graph, "buffersink@whole"), pixels(seed))
    for key in ("buffersink@whole", "buffersink@flipped"):
        assert graph.get_frames(key=key) is None


def test_the_references_example_of_several_inputs() -> None:
    first, second = (SOURCE.replace("buffer=", f"buffer@in{i}=") for i in range(2))
    graph = FilterGraph(f"{first} [in0];{second} [in1],[in0] [in1] vstack,buffersink")
    graph.add_frames(frames_of(0), key="buffer@in0")
    graph.add_frames(frames_of(1), key="buffer@in1")
    np.testing.assert_array_equal(taken(graph), np.concatenate([pixels(0), pixels(1)]))


def test_filters_that_hold_frames_back_give_them_when_flushed() -> None:
    graph = FilterGraph(f"{SOURCE},reverse,buffersink")
    for seed in range(3):
        graph.add_frames(frames_of(seed))
        assert graph.get_frames() is None
    graph.flush()
    graph.flush()
    for seed in (2, 1, 0):
        np.testing.assert_array_equal(taken(graph), pixels(seed))
    assert graph.get_frames() is None
    with pytest.raises(
        RuntimeError, match=r"^image of \d+ bytes: cannot run .* flushed and takes no more frames; make an"
    ):
        graph.add_frames(frames_of())


@pytest.mark.parametrize(
    "data", [make_jpeg(60, 40), encode(make_image(61, 43), "PNG"), encode(make_image(61, 43).convert("RGBA"), "PNG")]
)
def test_what_a_codec_says_is_what_stored_frames_are(data: bytes) -> None:
    packets = demux_image(data)
    graph = FilterGraph(f"{get_buffer_desc(packets.codec)},hflip,buffersink")
    graph.add_frames(decode_packets(packets, filter_desc=None))
    frames = graph.get_frames()
    assert isinstance(frames, ImageFrames)
    assert frames.pix_fmt == demux_image(data).pix_fmt
    expected = to_numpy(load_image(data, filter_desc="hflip"))
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), expected)


def test_it_gives_what_the_same_filters_give_when_decoding() -> None:
    data = encode(make_image(64, 48), "PNG")
    filters = "scale=w=40:h=30:flags=area,hue=s=0.5,format=pix_fmts=rgb24"
    packets = demux_image(data)
    graph = FilterGraph(f"{get_buffer_desc(packets.codec)},{filters},buffersink")
    graph.add_frames(decode_packets(packets, filter_desc=None))
    np.testing.assert_array_equal(taken(graph), to_numpy(load_image(data, filter_desc=filters)))


def test_frames_are_consumed_and_clones_are_not() -> None:
    graph = FilterGraph(f"{SOURCE},drawbox=x=5:y=5:w=9:h=9:color=red:t=fill,buffersink")
    frames = frames_of()
    kept = frames.clone()
    graph.add_frames(frames)
    with pytest.raises(
        TypeError, match=r"^these ImageFrames were consumed by convert_frames or a FilterGraph: call clone"
    ):
        graph.add_frames(frames)
    drawn = taken(graph)
    assert (drawn != pixels()).any()
    # A filter that writes in place wrote to a copy.
    np.testing.assert_array_equal(to_numpy(convert_frames(kept)), pixels())


def test_frames_are_shared_not_copied() -> None:
    data = encode(make_image(8, 8).resize((6000, 6000)), "BMP")
    source = "buffer=video_size=6000x6000:pix_fmt=rgb24:time_base=1/25:pixel_aspect=0/1"
    outputs = [f"buffersink@{i}" for i in range(4)]
    split = "".join(f"[{i}] null, {output};" for i, output in enumerate(outputs)).rstrip(";")
    graph = FilterGraph(f"{source}, split=4 [0] [1] [2] [3]; {split}")
    frames = decode_packets(demux_image(data), filter_desc=None)
    before = psutil.Process().memory_info().rss
    graph.add_frames(frames)
    kept = [graph.get_frames(key=output) for output in outputs]
    assert [(each.width, each.height) for each in kept if isinstance(each, ImageFrames)] == [(6000, 6000)] * 4
    assert psutil.Process().memory_info().rss - before < 50e6  # Each frame has 108 MB.


def test_time_goes_on_from_image_to_image() -> None:
    graph = FilterGraph(f"{SOURCE},null,buffersink")
    times = []
    for seed in range(3):
        graph.add_frames(frames_of(seed))
        frames = graph.get_frames()
        assert isinstance(frames, ImageFrames)
        times.append(frames.pts)
    assert times == pytest.approx([0.0, 0.04, 0.08])


def test_what_comes_out_can_go_into_another_graph() -> None:
    first = FilterGraph(f"{SOURCE},hflip,buffersink")
    second = FilterGraph(f"{SOURCE},vflip,buffersink")
    first.add_frames(frames_of())
    frames = first.get_frames()
    assert isinstance(frames, ImageFrames)
    assert frames.backend == "ffmpeg"
    assert repr(frames) == "ImageFrames(Parsed_buffersink_2 of a FilterGraph, 61x43, rgb24)"
    second.add_frames(frames)
    np.testing.assert_array_equal(taken(second), pixels()[::-1, ::-1])


def test_a_graph_can_be_its_own_source() -> None:
    graph = FilterGraph("color=c=red:s=16x8,format=pix_fmts=rgb24,buffersink")
    for _ in range(3):
        assert np.abs(taken(graph) - np.array([255, 0, 0])).max() <= 2  # Made in YUV.


def test_its_drawing_and_its_name_show_its_filters() -> None:
    graph = FilterGraph(f"{SOURCE.replace('buffer', 'buffer@a', 1)},hflip,buffersink@b")
    drawing = graph.dump()
    for part in ("buffer@a", "Parsed_hflip_1", "buffersink@b", "61x43", "rgb24"):
        assert part in drawing
    assert repr(graph) == "FilterGraph(inputs=['buffer@a'], outputs=['buffersink@b'])"


@pytest.mark.parametrize(
    ("desc", "words"),
    [
        ("", 'cannot make the filter graph ""'),
        (
            "hflip",
            "nothing leads into 'Parsed_hflip_0': put a source there, as get_buffer_desc and get_abuffer_desc write it",
        ),
        ("[a] hflip, buffersink", r"nothing leads into \[a\]"),
        (SOURCE, "nothing leads out of 'Parsed_buffer_0': put a \"buffersink\" there"),
        (f"{SOURCE} [b]", r"nothing leads out of \[b\]"),
        (f"{SOURCE},no_such=1,buffersink", f"there is no filter 'no_such'.*{REMEDY}$"),
        (f"{SOURCE},crop=w=9999,buffersink", r"\(FFmpeg: \[Parsed_crop_1\] Invalid too big"),
        (f"{SOURCE},scale=flags=wrong,buffersink", "wrong"),
        (f"{SOURCE},hflip=no_such=1,buffersink", "no_such"),
        ("buffer=video_size=0x0:pix_fmt=rgb24:time_base=1/25,buffersink", "buffer"),
        ("buffer=video_size=10x10:pix_fmt=no_such:time_base=1/25,buffersink", "no_such"),
    ],
)
def test_a_wrong_description_is_an_error_that_names_the_filter(desc: str, words: str) -> None:
    with pytest.raises(
        RuntimeError, match=f'^cannot make the filter graph "{re.escape(desc)}": .*{words}' if desc else words
    ):
        FilterGraph(desc)


@pytest.mark.parametrize(
    ("desc", "error", "message"),
    [
        (3, TypeError, r"^`filter_desc` must be a str, got 3 "),
        (f"{SOURCE},hflip\0,buffersink", ValueError, r"^`filter_desc` must be a str without null characters"),
    ],
)
def test_a_description_is_text(desc: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FilterGraph(desc)


@pytest.mark.parametrize(
    ("size", "filter_desc", "got"),
    [((60, 43), "format=pix_fmts=rgb24", "60x43 rgb24"), ((61, 43), "format=pix_fmts=bgr24", "61x43 bgr24")],
)
def test_frames_that_an_input_does_not_take_are_an_error(size: tuple[int, int], filter_desc: str, got: str) -> None:
    graph = FilterGraph(f"{SOURCE},hflip,buffersink")
    message = (
        rf"^image of \d+ bytes: .* its input 'Parsed_buffer_0' takes 61x43 rgb24, but the frames are {got}: describe"
    )
    with pytest.raises(RuntimeError, match=message):
        graph.add_frames(frames_of(size=size, filter_desc=filter_desc))
    graph.add_frames(frames_of())
    np.testing.assert_array_equal(taken(graph), pixels()[:, ::-1])


def test_names_of_inputs_and_outputs_are_checked() -> None:
    first, second = (SOURCE.replace("buffer=", f"buffer@in{i}=") for i in range(2))
    graph = FilterGraph(f"{first} [a]; {second} [b]; [a] [b] hstack, split [c] [d]; [c] buffersink@x; [d] buffersink@y")
    frames = frames_of()
    for key, got in ((None, "None"), ("in0", "'in0'"), ("buffersink@x", "'buffersink@x'")):
        with pytest.raises(
            ValueError, match=f"^`key` must be .* the graph's inputs, 'buffer@in0', 'buffer@in1', got {got}$"
        ):
            graph.add_frames(frames, key=key)
        with pytest.raises(
            ValueError, match=r"^`key` must be .* the graph's outputs, 'buffersink@x', 'buffersink@y', got "
        ):
            graph.get_frames(key="buffer@in0" if key else None)
    assert frames.width == 61  # They were not consumed.
    source = FilterGraph("color=c=red:s=16x8,buffersink")
    with pytest.raises(ValueError, match=r"^`key` must be .* the graph's inputs, none, got None$"):
        source.add_frames(frames)


@pytest.mark.parametrize("frames", [3, b"", None, []])
def test_what_are_no_frames_is_a_type_error(frames: Any) -> None:
    graph = FilterGraph(f"{SOURCE},hflip,buffersink")
    with pytest.raises(TypeError, match=r"^`frames` must be frames, as `decode_packets` returns, got "):
        graph.add_frames(frames)


def test_a_filter_that_fails_is_an_error_with_its_words() -> None:
    # Known only when the expression is evaluated for a later frame; versions count them differently.
    graph = FilterGraph(f"{SOURCE},scale=w=16:h='if(gte(n\\,2)\\,99999999\\,8)':eval=frame,buffersink")
    graph.add_frames(frames_of())
    assert taken(graph).shape == (8, 16, 3)
    graph.add_frames(frames_of())
    graph.add_frames(frames_of())
    graph.add_frames(frames_of())
    with pytest.raises(RuntimeError, match=r"^cannot run the filter graph .*\(FFmpeg: \[Parsed_scale_1\] "):
        list(iter(graph.get_frames, None))


@pytest.mark.parametrize("value", [3, "codec", None])
def test_an_input_is_described_from_a_codec_or_frames(value: Any) -> None:
    with pytest.raises(
        TypeError,
        match=r"^`codec` must be an ImageCodec or VideoCodec, as `packets.codec`, ImageFrames or VideoFrames, got",
    ):
        get_buffer_desc(value)


def test_descriptions_of_inputs() -> None:
    codec = demux_image(make_jpeg(60, 40)).codec
    assert get_buffer_desc(codec) == "buffer=video_size=60x40:pix_fmt=yuvj420p:time_base=1/25:pixel_aspect=0/1"
    expected = "buffer@in0=video_size=60x40:pix_fmt=gray:time_base=1/25:pixel_aspect=0/1"
    assert get_buffer_desc(codec, label="in0", pix_fmt="gray") == expected
    assert get_buffer_desc(frames_of()) == SOURCE


def test_threads_share_a_graph() -> None:
    # Each frame that goes in comes out once, whoever asks for it.
    graph = FilterGraph(f"{SOURCE},hflip,buffersink")
    expected = {pixels(seed)[:, ::-1].tobytes() for seed in range(5)}
    results: list[bytes] = []

    def work(seed: int) -> None:
        graph.add_frames(frames_of(seed % 5))
        while (frames := graph.get_frames()) is None:
            pass
        results.append(to_numpy(convert_frames(frames)).tobytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(80)))
    assert len(results) == 80
    assert set(results) == expected
    assert graph.get_frames() is None


def test_python_runs_while_filters_do() -> None:
    source = "buffer=video_size=2000x1500:pix_fmt=rgb24:time_base=1/25:pixel_aspect=0/1"
    blur = "gblur=sigma=20:steps=6"
    frames = frames_of(size=(2000, 1500))

    def run(done: threading.Event) -> object:
        try:
            graph = FilterGraph(f"{source},{blur},{blur},{blur},buffersink")
            graph.add_frames(frames.clone())
            return graph.get_frames()
        finally:
            done.set()

    counted = 0
    # Filters that held the GIL would stop the count in every try; a busy machine does not.
    for _ in range(10):
        counted, done = 0, threading.Event()
        with ThreadPoolExecutor(1) as pool:
            blurred = pool.submit(run, done)
            while not done.wait(0.001):
                counted += 1
            assert blurred.result() is not None
        if counted > 5:
            break
    assert counted > 5


def test_memory_does_not_grow_with_graphs_and_frames(tmp_path: Path) -> None:
    frames = frames_of(size=(300, 200))
    source = get_buffer_desc(frames)
    descs = (
        f"{source},split [a] [b]; [a] buffersink@a; [b] scale=50:50,buffersink@b",
        f"{source},reverse,buffersink",
    )

    def work() -> None:
        for _ in range(30):
            for desc in descs:
                graph = FilterGraph(desc)
                for _ in range(3):
                    graph.add_frames(frames.clone())
                if "split" in desc:
                    assert graph.get_frames(key="buffersink@b") is not None
            with pytest.raises(RuntimeError):
                FilterGraph(f"{source},crop=w=9999,buffersink")
            with pytest.raises(RuntimeError):
                FilterGraph(f"{source},hflip,buffersink").add_frames(frames_of())

    work()
    work()
    before = psutil.Process().memory_info().rss
    for _ in range(4):
        work()
    # 120 rounds of 6 frames of 180 kB: a leak of one a round would be 22 MB.
    assert psutil.Process().memory_info().rss - before < 10e6
