"""Wherever a path is taken, a URL is."""

from __future__ import annotations

import inspect
import io as bytes_io
import os
import re
import signal
import tarfile
import wave
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.io.av.clips import make_clip
from tests.io.file_server import FileServer, serving
from tests.io.images import make_jpeg

from spdl import io
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.gpu_libraries import FakeGpu

SIZE: Any = {"width": 32, "height": 24}


def decoded(packets: Any) -> Any:
    return io.to_numpy(io.convert_frames(io.decode_packets(packets)))


def members(pairs: Any) -> list[tuple[str, bytes]]:
    return [(name, bytes(content)) for name, content in pairs]


READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "AudioReader": ("a.wav", lambda src: io.to_numpy(io.AudioReader(src).read(0.25, 0.75))),
    "Demuxer": ("a.mp4", lambda src: decoded(io.Demuxer(src).demux_video())),
    "TarFile": ("a.tar", lambda src: members(io.TarFile(src))),
    "VideoReader": ("a.mp4", lambda src: io.to_numpy(io.VideoReader(src, **SIZE).read_frames([3, 20, 4]))),
    "count_pages": ("a.tif", io.count_pages),
    "demux_audio": ("a.wav", lambda src: decoded(io.demux_audio(src))),
    "demux_image": ("a.jpg", lambda src: decoded(io.demux_image(src))),
    "demux_video": ("a.mp4", lambda src: decoded(io.demux_video(src))),
    "iter_tarfile": ("a.tar", lambda src: members(io.iter_tarfile(src))),
    "load_audio": ("a.wav", lambda src: io.to_numpy(io.load_audio(src))),
    "load_audio_batch": ("a.wav", lambda src: io.to_numpy(io.load_audio_batch([src] * 3, sample_rate=8000).samples)),
    "load_image": ("a.jpg", lambda src: io.to_numpy(io.load_image(src))),
    "load_image_batch": ("a.jpg", lambda src: io.to_numpy(io.load_image_batch([src] * 3, **SIZE))),
    "load_npy": ("a.npy", io.load_npy),
    "load_npz": ("a.npz", lambda src: io.load_npz(src)["x"]),
    "load_npz_batch": ("a.npz", lambda src: io.load_npz_batch([src] * 3)["x"]),
    "load_video": ("a.mp4", lambda src: io.to_numpy(io.load_video(src))),
    "load_video_batch": ("a.mp4", lambda src: io.to_numpy(io.load_video_batch([src] * 2, num_frames=4, **SIZE).clips)),
    "load_wav": ("a.wav", io.load_wav),
    "parse_wav": ("a.wav", lambda src: str(io.parse_wav(src))),
    "tar_index": ("a.tar", lambda src: [tuple(member) for member in io.tar_index(src)]),
}
BATCHES = ("load_image_batch", "load_audio_batch", "load_video_batch")
# They read as `load_image_batch` and `Demuxer` do.
ON_GPU = {"decode_image_nvjpeg", "load_image_batch_nvjpeg", "streaming_load_video_nvdec"}
# All others raise what they raise for a file that cannot be opened.
MEDIA = {"AudioReader", "Demuxer", "VideoReader", "demux_audio", "demux_image", "demux_video", *BATCHES}
MEDIA |= {"count_pages", "load_audio", "load_image", "load_video"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.jpg").write_bytes(make_jpeg())
    Image.new("L", (6, 4)).save(folder / "a.tif")
    make_clip(folder / "a.mp4")
    np.save(folder / "a.npy", np.arange(24.0).reshape(4, 6))
    np.savez(folder / "a.npz", x=np.arange(7))
    with wave.open(str(folder / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes((np.sin(np.arange(16000) / 9) * 9999).astype("<i2").tobytes())
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name, content in {"1.txt": b"one", "2.cls": b"2", "d/3.bin": bytes(5000)}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, bytes_io.BytesIO(content))
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[FileServer]:
    with serving(folder) as server:
        yield server


def test_these_are_all_readers() -> None:
    """A reader that is new is not forgotten here."""
    found = set()
    for name in io.__all__:
        with suppress(TypeError, ValueError):  # A value, or a native type, which reads nothing.
            first = next(iter(inspect.signature(getattr(io, name)).parameters.values()), None)
            words = ("ImageInput", "ArrayInput", "TarInput", "PathLike")
            if first is not None and any(word in str(first.annotation) for word in words):
                found.add(name)
    assert found == set(READERS) | ON_GPU


def test_gpus_decode_what_urls_name(fake_gpu: FakeGpu, folder: Path, server: FileServer) -> None:
    decoded = [io.decode_image_nvjpeg(src) for src in (f"{server.url}/a.jpg", folder / "a.jpg")]
    pictures = [io.to_numpy(io.transfer_buffer_cpu(each)) for each in decoded]
    assert np.array_equal(pictures[0], pictures[1])
    there = io.load_image_batch_nvjpeg([f"{server.url}/a.jpg"], device_config=io.cuda_config(0), **SIZE)
    assert there.backends == ("nvjpeg",)
    with pytest.raises(io.LoadError, match="No such object"):
        io.decode_image_nvjpeg(f"{server.url}/none.jpg", scale_width=8, scale_height=8)


@pytest.mark.parametrize("name", READERS)
def test_the_same_from_a_url(name: str, folder: Path, server: FileServer) -> None:
    file, read = READERS[name]
    expected = read(folder / file)
    for url in (f"{server.url}/{file}", f"{server.url}/{file}?token=secret", f"file://{folder}/{file}"):
        found = read(url)
        if isinstance(expected, np.ndarray):
            assert np.array_equal(found, expected)
            assert found.dtype == expected.dtype
        else:
            assert found == expected


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("place", "said"), [("none", "404|no such|No such"), ("refused", "403")])
def test_what_cannot_be_read_is_named(name: str, place: str, said: str, server: FileServer) -> None:
    file, read = READERS[name]
    url = f"{server.url}/{place}/{file}"
    expected: type[Exception] = RuntimeError if name in MEDIA else OSError
    with pytest.raises(expected, match=said) as raised:
        read(f"{url}?token=secret")
    text = str(raised.value)
    assert file in text
    assert server.url.removeprefix("http://") in text
    assert "secret" not in text


@pytest.mark.parametrize("name", READERS)
def test_a_url_of_no_kind_is_named(name: str) -> None:
    with pytest.raises((OSError, RuntimeError, ModuleNotFoundError), match="nonsense"):
        READERS[name][1]("nonsense://host/file")


def test_a_url_of_a_folder_is_no_object(server: FileServer) -> None:
    with pytest.raises(ValueError, match=r"/numbers.npy/ is the URL of a folder: name an object"):
        io.load_npy(f"{server.url}/numbers.npy/")


def test_an_object_with_other_content_is_named_by_its_url(server: FileServer) -> None:
    for name in ("load_image", "demux_image", "load_video", "VideoReader", "load_audio"):
        with pytest.raises(RuntimeError, match=re.escape(f"{server.url}/a.npy")):
            READERS[name][1](f"{server.url}/a.npy")


def test_a_batch_goes_on_without_those_that_fail(folder: Path, server: FileServer) -> None:
    srcs = [f"{server.url}/a.jpg", f"{server.url}/none.jpg?token=secret", folder / "a.jpg", f"{server.url}/a.npy"]
    batch = io.load_image_batch(srcs, **SIZE, on_error="skip")
    assert [failure.index for failure in batch.failures] == [1, 3]
    assert "404" in batch.failures[0].reason or "no such" in batch.failures[0].reason.lower()
    pictures = io.to_numpy(batch)
    assert len(pictures) == 2
    assert np.array_equal(pictures[0], pictures[1])
    with pytest.raises(io.LoadError) as raised:
        io.load_image_batch(srcs, **SIZE)
    assert [failure.index for failure in raised.value.failures] == [1, 3]
    assert "none.jpg" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_the_stage_that_loads_a_batch_counts_what_its_threads_read(folder: Path, server: FileServer) -> None:
    def load(names: list[str]) -> int:
        return len(io.to_numpy(io.load_image_batch([f"{server.url}/{name}" for name in names], **SIZE)))

    # One of them is read by the stage's own thread.
    batches = [["a.jpg"] * 3, ["a.jpg"]]
    with PipelineBuilder().add_source(batches).pipe(load).add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline) == [3, 1]
    assert pipeline.statistics().stages[1].bytes_read == 4 * (folder / "a.jpg").stat().st_size == server.sent


def test_media_batches_name_what_failed(folder: Path, server: FileServer) -> None:
    clips = io.load_video_batch([folder / "a.mp4", f"{server.url}/none"], num_frames=2, **SIZE, on_error="skip")
    assert [failure.index for failure in clips.clips.failures] == [1]
    sounds = io.load_audio_batch([f"{server.url}/none", folder / "a.wav"], sample_rate=8000, on_error="skip")
    assert [failure.index for failure in sounds.samples.failures] == [0]


def test_a_forked_process_reads_urls(server: FileServer) -> None:
    url = f"{server.url}/a.npy"
    expected = io.load_npy(url)
    child = os.fork()
    if not child:
        signal.alarm(30)
        with suppress(BaseException):
            os._exit(0 if np.array_equal(io.load_npy(url), expected) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(io.load_npy(url), expected)


def test_a_tar_is_read_by_member(folder: Path, server: FileServer) -> None:
    size = (folder / "a.tar").stat().st_size
    archive = io.TarFile(f"{server.url}/a.tar")
    begun = len(server.gets)
    assert bytes(archive.read("1.txt")) == b"one"
    assert sum(sent for _, sent in server.gets[begun:]) < size / 2
