"""One call for each codec, container and entry point: what a wheel must have inside.

The rules behind these calls are tested elsewhere. The oracles are Pillow, NumPy, soundfile and the ffmpeg command, as
far as they are there.
"""

from __future__ import annotations

import gzip
import importlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import wave
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError, features
from tests.cuda_driver import VARIABLE
from tests.io.av import encoded, ffmpeg, media, oracle, sources
from tests.io.av.encoded import audio, video
from tests.io.av.muxing import encode_audio, encode_video, pictures, tones
from tests.io.av.sources import Pictures, Sound
from tests.io.images import RESAMPLING, encode, make_image, make_jpeg
from tests.io.kept import CACHE, digest, files_of, kept

import spdl.io
from spdl.io import (
    AudioReader,
    Demuxer,
    TarFile,
    VideoReader,
    apply_bsf,
    convert_array,
    convert_frames,
    cpu_storage,
    decode_config,
    decode_packets,
    demux_image,
    encode_config,
    encode_image,
    get_audio_filter_desc,
    get_video_filter_desc,
    iter_tarfile,
    load_audio,
    load_audio_batch,
    load_image,
    load_image_batch,
    load_mask_batch,
    load_npy,
    load_npz,
    load_npz_batch,
    load_video,
    load_video_batch,
    load_wav,
    random_color_jitter,
    random_flip,
    random_resized_crop,
    sample_decode_video,
    save_image,
    save_npy,
    save_npz,
    tar_index,
    to_numpy,
)
from spdl.io.utils import get_ffmpeg_filters, get_ffmpeg_license, get_ffmpeg_versions, get_libjpeg_turbo_version

if TYPE_CHECKING:
    from collections.abc import Callable

PHOTO = make_image(96, 64)
PIXELS = np.asarray(PHOTO)


def apart(found: Any, expected: Any) -> float:
    """Return by how much two arrays differ: the root of the mean of the squares."""
    return float(np.sqrt(np.mean((found.astype(np.float64) - expected.astype(np.float64)) ** 2)))


# ---- images ----------------------------------------------------------------------------------------------------

IMAGES: dict[str, tuple[str, Image.Image, dict[str, Any]]] = {
    "jpeg": ("JPEG", PHOTO, {"quality": 90}),
    "progressive jpeg": ("JPEG", PHOTO, {"quality": 90, "progressive": True}),
    "gray jpeg": ("JPEG", PHOTO.convert("L"), {}),
    "cmyk jpeg": ("JPEG", PHOTO.convert("CMYK"), {}),
    "png": ("PNG", PHOTO, {}),
    "png with a palette": ("PNG", PHOTO.quantize(64), {}),
    "gif": ("GIF", PHOTO.quantize(64), {}),
    "bmp": ("BMP", PHOTO, {}),
    "tiff": ("TIFF", PHOTO, {}),
    "tiff, lzw": ("TIFF", PHOTO, {"compression": "tiff_lzw"}),
    "tiff, deflate": ("TIFF", PHOTO, {"compression": "tiff_adobe_deflate"}),
    "ppm": ("PPM", PHOTO, {}),
    "pgm": ("PPM", PHOTO.convert("L"), {}),
    "pbm": ("PPM", PHOTO.convert("1"), {}),
    "lossless webp": ("WEBP", PHOTO, {"lossless": True}),
    "jpeg 2000": ("JPEG2000", PHOTO, {}),
}
LOSSY: dict[str, tuple[str, Image.Image, dict[str, Any]]] = {
    "webp": ("WEBP", PHOTO, {"quality": 90}),
    "avif": ("AVIF", PHOTO, {"quality": 90}),
}


def of_pillow(data: bytes) -> Any:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("name", IMAGES)
def test_load_image_reads_what_pillow_reads(name: str) -> None:
    file_format, image, options = IMAGES[name]
    data = encode(image, file_format, **options)
    np.testing.assert_array_equal(to_numpy(load_image(data)), of_pillow(data))


@pytest.mark.parametrize("name", LOSSY)
def test_load_image_comes_close_to_pillow(name: str) -> None:
    if not features.check(name):
        pytest.skip(f"this Pillow writes no {name}")
    file_format, image, options = LOSSY[name]
    data = encode(image, file_format, **options)
    # Chroma is made larger by other filters.
    assert apart(to_numpy(load_image(data)), of_pillow(data)) < 8


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "tiff", "ppm", "pgm", "gif", "qoi"])
def test_save_image_writes_what_pillow_reads(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"image.{suffix}"
    gray = suffix in ("gif", "pgm")
    pixels = PIXELS[..., 0] if gray else PIXELS
    save_image(path, pixels, "gray" if gray else "rgb24")
    np.testing.assert_array_equal(to_numpy(load_image(path)).shape, PIXELS.shape)
    try:
        found = of_pillow(path.read_bytes())
    except UnidentifiedImageError:
        # Pillow 12 and older do not know QOI.
        assert suffix == "qoi"
        found = to_numpy(load_image(path))
    expected = np.repeat(pixels[..., None], 3, -1) if gray else pixels
    if suffix == "jpg":
        assert apart(found, expected) < 14
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("backend", ["libjpeg-turbo", "libdeflate", "ffmpeg"])
def test_each_backend_decodes(backend: str) -> None:
    data = encode(PHOTO, "PNG") if backend == "libdeflate" else make_jpeg()
    found = to_numpy(load_image(data, decode_config=decode_config(backend=backend)))  # type: ignore[arg-type]
    assert apart(found, of_pillow(data)) < 8


@pytest.mark.parametrize("interpolation", sorted(RESAMPLING))
def test_load_image_batch_resizes_as_pillow_does(interpolation: Any) -> None:
    batch = load_image_batch(
        [encode(PHOTO, "PNG")] * 2, width=40, height=30, mode="stretch", interpolation=interpolation, num_threads=2
    )
    expected = np.asarray(PHOTO.resize((40, 30), RESAMPLING[interpolation]))
    np.testing.assert_array_equal(to_numpy(batch), [expected] * 2)


def test_load_mask_batch_reads_the_indices_of_a_palette() -> None:
    mask = PHOTO.quantize(64)
    found = load_mask_batch([encode(mask, "PNG")] * 2, width=None, height=None)
    np.testing.assert_array_equal(to_numpy(found), [np.asarray(mask)] * 2)


def test_load_image_batch_does_all_at_once() -> None:
    batch = load_image_batch(
        [make_jpeg(), encode(PHOTO, "PNG"), b"no image"],
        width=40,
        height=30,
        crop=random_resized_crop(range(3), seed=0, epoch=0),
        flip=random_flip(range(3), seed=0, epoch=0),
        jitter=random_color_jitter(range(3), seed=0, epoch=0, hue=0.1, contrast=0.2),
        on_error="zero",
        layout="NCHW",
        dtype="float32",
        mean=(0.5, 0.5, 0.5),
        std=(0.2, 0.2, 0.2),
        exact=False,
        storage=cpu_storage(2**16, pin_memory=False),
    )
    assert (batch.shape, batch.dtype) == ((3, 3, 30, 40), "float32")
    assert [failure.index for failure in batch.failures] == [2]
    assert np.isfinite(to_numpy(batch)).all()


def test_filters_work_on_images() -> None:
    found = to_numpy(load_image(encode(PHOTO, "PNG"), filter_desc="hflip,format=pix_fmts=rgb24"))
    np.testing.assert_array_equal(found, PIXELS[:, ::-1])
    packets = demux_image(encode(PHOTO, "PNG"))
    desc = get_video_filter_desc(scale_width=48, scale_height=32)
    assert to_numpy(convert_frames(decode_packets(packets, filter_desc=desc))).shape == (32, 48, 3)
    assert {"scale", "crop", "aresample", "hue", "loudnorm"} <= set(get_ffmpeg_filters())
    data = io.BytesIO()
    encode_image(data, PIXELS, encode_config=encode_config(format="png", width=48, height=32))
    np.testing.assert_array_equal(of_pillow(data.getvalue()), PHOTO.resize((48, 32), Image.Resampling.BICUBIC))


# ---- video -----------------------------------------------------------------------------------------------------

_SHORT = Pictures(count=8)
_H263 = Pictures(176, 144, 8)
_422 = Pictures(count=8, pix_fmt="yuv422p")
_DEEP_422 = Pictures(count=8, pix_fmt="yuv422p10le")
# Of those that FFmpeg has an encoder for. Some are in the clips of other tests.
CLIPS = {
    "h263.avi": video("h263", "-q:v", 3, pictures=_H263),
    "sorenson.flv": video("flv", "-q:v", 3, pictures=_SHORT),
    "wmv1.asf": video("wmv1", "-q:v", 3, pictures=_SHORT),
    "wmv2.asf": video("wmv2", "-q:v", 3, pictures=_SHORT),
    "msmpeg4v2.avi": video("msmpeg4v2", "-q:v", 3, pictures=_SHORT),
    "msmpeg4v3.avi": video("msmpeg4", "-q:v", 3, pictures=_SHORT),
    "sorenson.mov": video("svq1", "-q:v", 3, pictures=Pictures(count=8, pix_fmt="yuv410p")),
    "cinepak.avi": video("cinepak", "-pix_fmt", "rgb24", pictures=_SHORT),
    "video1.avi": video("msvideo1", "-pix_fmt", "rgb555le", pictures=_SHORT),
    "animation.mov": video("qtrle", "-pix_fmt", "rgb24", pictures=_SHORT),
    "dv.avi": video("dvvideo", "-s", "720x576", "-pix_fmt", "yuv420p", pictures=Pictures(720, 576, 2)),
    "dnxhr.mov": video("dnxhd", "-profile:v", "dnxhr_hq", pictures=Pictures(256, 128, 4, "yuv422p")),
    "ffvhuff.avi": video("ffvhuff", pictures=_SHORT, lossless=True),
    "utvideo.avi": video("utvideo", pictures=_SHORT, lossless=True),
    "magicyuv.avi": video("magicyuv", pictures=_422, lossless=True),
    "v210.mov": video("v210", pictures=_DEEP_422, lossless=True),
    "h264.flv": video("libx264", "-g", 12, pictures=_SHORT),
    "vp9.ivf": video("libvpx-vp9", "-g", 12, "-b:v", "400k", pictures=_SHORT),
    "mpeg2.mxf": video("mpeg2video", "-q:v", 4, pictures=_SHORT),
    "eac3.eac3": audio("eac3", "-b:a", "192k"),
    "dts.dts": audio("dca", "-strict", -2, "-b:a", "768k", sound=Sound(48000, 2, 1)),
    "truehd.mkv": audio("truehd", "-strict", -2, sound=Sound(48000, 2, 1)),
    "tta.tta": audio("tta", sound=Sound(48000, 2, 1), lossless=True),
    "wma1.asf": audio("wmav1", "-b:a", "128k", sound=Sound(44100, 2, 1)),
    "wma2.asf": audio("wmav2", "-b:a", "128k", sound=Sound(44100, 2, 1)),
    "gsm.wav": audio("libgsm_ms", "-b:a", "13k", sound=Sound(8000, 1, 1)),
    # Wider sound comes out twice as long of FFmpeg 7.1, as docs/install.md says.
    "speex.ogg": audio("libspeex", sound=Sound(8000, 1, 1)),
    "adpcm_ima.wav": audio("adpcm_ima_wav", sound=Sound(22050, 2, 1)),
    "s24.caf": audio("pcm_s24be", dtype="i4", sound=Sound(48000, 2, 1), lossless=True),
    "s16.au": audio("pcm_s16be", sound=Sound(48000, 2, 1), lossless=True),
    "s16.w64": audio("pcm_s16le", sound=Sound(48000, 2, 1), lossless=True),
}
SHARED_VIDEOS = (
    *("h264.mp4", "hevc.mp4", "vp8.webm", "vp9.webm", "av1.mp4", "mpeg1.mpg", "mpeg2.ts", "mpeg4.avi", "mjpeg.avi"),
    *("prores.mov", "theora.ogv", "ffv1.mkv", "rawvideo.nut", "huffyuv.avi"),
)
SHARED_SOUNDS = (
    *("aac.m4a", "aac.aac", "mp2.mp2", "mp3.mp3", "opus.ogg", "vorbis.ogg", "flac.flac", "alac.m4a", "wavpack.wv"),
    *("ac3.ac3", "adpcm.wav", "alaw.wav", "u8.wav", "s24.wav", "f32.wav", "s16.aiff"),
)
VIDEOS = (*SHARED_VIDEOS, *(name for name, clip in CLIPS.items() if clip.pictures is not None))
SOUNDS = (*SHARED_SOUNDS, *(name for name, clip in CLIPS.items() if clip.sound is not None))


def clip(name: str) -> Path:
    """Return the path of a clip. Skip the test if it cannot be made here."""
    if name not in CLIPS:
        return media.clip(name)
    made_by = digest(ffmpeg.version(), Path(__file__), *files_of(encoded, ffmpeg, sources))
    return kept(CACHE / "test-clips" / made_by / name, CLIPS[name].make)


def by_ffmpeg(path: Path, decode: Callable[[Path], Any]) -> Any:
    """Return what the ffmpeg command makes of a clip. It is kept beside the clip."""

    def make(making: Path) -> None:
        np.save(making, decode(path))

    return np.load(kept(path.with_name(f"{path.name}.{digest(ffmpeg.version(), *files_of(oracle))}.npy"), make))


@pytest.mark.parametrize("name", VIDEOS)
def test_load_video_decodes(name: str) -> None:
    path = clip(name)
    expected = by_ffmpeg(path, oracle.pictures)
    found = to_numpy(load_video(path))
    assert found.shape == expected.shape
    # Of another version of FFmpeg, whose conversion of colours rounds otherwise.
    assert apart(found, expected) < 3


ENCODERS = {
    "mpeg1video": "vob",
    "mpeg2video": "mpegts",
    "mpeg4": "mp4",
    "h263": "avi",
    "flv": "flv",
    "mjpeg": "avi",
    "prores_ks": "mov",
    "ffv1": "matroska",
    "ffvhuff": "avi",
    "huffyuv": "avi",
    "utvideo": "avi",
    "rawvideo": "nut",
    "libvpx-vp9": "webm",
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_muxer_encodes_video(encoder: str, tmp_path: Path) -> None:
    shown = pictures(8, 144, 176)
    data = encode_video(shown, container=ENCODERS[encoder], encoder=encoder)
    found = to_numpy(load_video(data))
    assert found.shape == shown.shape
    assert apart(found, shown) < 12
    if shutil.which("ffmpeg"):
        path = tmp_path / "clip"
        path.write_bytes(data)
        assert apart(oracle.pictures(path), shown) < 12


def test_each_reader_of_video_reads(tmp_path: Path) -> None:
    shown = pictures(12)
    path = tmp_path / "clip.mkv"
    path.write_bytes(encode_video(shown, encoder="ffv1"))
    whole = to_numpy(load_video(path))
    assert apart(whole, shown) < 8
    reader = VideoReader(path)
    np.testing.assert_array_equal(to_numpy(reader.read_frames([7, 2, 11])), whole[[7, 2, 11]])
    demuxer = Demuxer(path)
    packets = demuxer.demux_video()
    np.testing.assert_array_equal(to_numpy(convert_frames(decode_packets(packets.clone()))), whole)
    sampled = sample_decode_video(packets, [0, 5])
    np.testing.assert_array_equal(np.stack([to_numpy(convert_frames(each)) for each in sampled]), whole[[0, 5]])
    batch = load_video_batch([path] * 2, num_frames=4, width=32, height=24, num_threads=2)
    assert to_numpy(batch.clips).shape == (2, 4, 24, 32, 3)


def test_apply_bsf_rewrites_packets() -> None:
    packets = Demuxer(clip("h264.mp4")).demux_video()
    plain = to_numpy(convert_frames(decode_packets(packets.clone())))
    annexed = apply_bsf(packets, "h264_mp4toannexb")
    np.testing.assert_array_equal(to_numpy(convert_frames(decode_packets(annexed))), plain)


# ---- sound -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOUNDS)
def test_load_audio_decodes(name: str) -> None:
    path = clip(name)
    expected = by_ffmpeg(path, oracle.samples)
    found = to_numpy(load_audio(path, filter_desc=get_audio_filter_desc(sample_fmt="flt")))
    # Versions of FFmpeg leave out other lengths at the ends.
    late = len(found) - len(expected)
    assert abs(late) <= 2500
    shortest = min(len(found), len(expected)) - 2500
    starts = [(max(0, late), 0), (0, max(0, -late)), (0, 0)]
    assert min(apart(found[a : a + shortest], expected[b : b + shortest]) for a, b in starts) < 0.01


@pytest.mark.parametrize(
    ("encoder", "container", "lossless"),
    [
        ("aac", "mp4", False),
        ("libopus", "ogg", False),
        ("ac3", "ac3", False),
        ("mp2", "mp2", False),
        ("adpcm_ms", "wav", False),
        ("flac", "flac", True),
        ("alac", "ipod", True),
        ("wavpack", "wv", True),
        ("tta", "tta", True),
        ("pcm_s16le", "wav", True),
        ("pcm_s16be", "aiff", True),
    ],
)
def test_muxer_encodes_sound(encoder: str, container: str, *, lossless: bool) -> None:
    heard = (tones(24_000) * 2**15).astype(np.int16)
    data = encode_audio(heard, "s16", container=container, encoder=encoder)
    found = to_numpy(load_audio(data, filter_desc=get_audio_filter_desc(sample_fmt="s16")))
    if lossless:
        np.testing.assert_array_equal(found, heard)
        return
    assert abs(len(found) - len(heard)) <= 2500
    # What an encoder puts in front may still be there.
    inside = heard[8000:10_000].astype(float) / 2**15
    assert min(apart(found[8000 + late : 10_000 + late] / 2**15, inside) for late in range(2500)) < 0.05


@pytest.mark.parametrize("file_format", ["WAV", "FLAC", "OGG"])
def test_load_audio_reads_what_soundfile_writes(file_format: str, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "sound"
    soundfile.write(path, tones(9000), 48000, format=file_format)
    expected, _ = soundfile.read(path, dtype="float32")
    found = to_numpy(load_audio(path, filter_desc=get_audio_filter_desc(sample_fmt="flt")))
    # Versions of FFmpeg leave out other lengths at the end of Vorbis.
    assert len(expected) - 128 <= len(found) <= len(expected)
    np.testing.assert_allclose(found, expected[: len(found)], atol=1e-4)


def make_wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes((np.sin(np.arange(16000) / 9) * 9999).astype("<i2").tobytes())
    return file.getvalue()


def test_each_reader_of_sound_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav())
    expected = (np.sin(np.arange(16000) / 9) * 9999).astype("<i2")[:, None]
    np.testing.assert_array_equal(load_wav(path), expected)
    read = to_numpy(AudioReader(path).read(0.25, 0.75))
    np.testing.assert_allclose(read.ravel(), expected[4000:12000, 0] / 2**15, atol=1e-4)
    batch = load_audio_batch([path, path], sample_rate=8000)
    assert to_numpy(batch.samples).shape[0] == 2


# ---- arrays and archives ---------------------------------------------------------------------------------------

ARRAYS: dict[str, Any] = {"a": np.arange(5000, dtype=np.int16), "b": np.eye(7, dtype=np.float32)}


def test_arrays_are_numpys(tmp_path: Path) -> None:
    save_npy(tmp_path / "a.npy", ARRAYS["a"])
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), ARRAYS["a"])
    np.testing.assert_array_equal(load_npy(tmp_path / "a.npy"), ARRAYS["a"])
    assert to_numpy(convert_array([3, 1, 4])).tolist() == [3, 1, 4]


@pytest.mark.parametrize("compression", [None, "deflate", "zstd"])
def test_archives_of_arrays_are_numpys(compression: Any, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    save_npz(path, ARRAYS, compression=compression)
    for found in (load_npz(path), *([] if compression == "zstd" else [np.load(path)])):
        assert {name: found[name].tobytes() for name in ARRAYS} == {k: v.tobytes() for k, v in ARRAYS.items()}
    batch = load_npz_batch([path, path], num_threads=2)
    np.testing.assert_array_equal(batch["b"], [ARRAYS["b"]] * 2)
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["a.npy", "b.npy"]


def test_numpys_archives_are_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "arrays.npz", **ARRAYS)
    np.testing.assert_array_equal(load_npz(tmp_path / "arrays.npz")["a"], ARRAYS["a"])


def test_tar_archives_are_tarfiles(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("a.txt", "b.txt"):
            member = tarfile.TarInfo(name)
            member.size = 1000
            archive.addfile(member, io.BytesIO(name[:1].encode() * 1000))
    data, path = file.getvalue(), tmp_path / "a.tar"
    path.write_bytes(data)
    expected = {"a.txt": b"a" * 1000, "b.txt": b"b" * 1000}
    assert {name: bytes(content) for name, content in iter_tarfile(data)} == expected
    assert {name: bytes(content) for name, content in iter_tarfile(gzip.compress(data))} == expected
    assert {name: bytes(content) for name, content in TarFile(path)} == expected
    assert [member.name for member in tar_index(path)] == sorted(expected)


def test_zstd_streams_are_read() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    data = tar_of("a.txt", b"content" * 500)
    packed = pyarrow.compress(data, codec="zstd", asbytes=True)
    assert [(name, bytes(content)) for name, content in iter_tarfile(packed)] == [("a.txt", b"content" * 500)]


def tar_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


# ---- the package -----------------------------------------------------------------------------------------------

MODULES = ("pipeline", "pipeline.defs", "io", "io.utils", "source", "store", "dataloader", "observe", "tune", "testing")


@pytest.mark.parametrize("name", MODULES)
def test_each_public_module_has_what_it_names(name: str) -> None:
    module = importlib.import_module(f"spdl.{name}")
    for each in module.__all__:
        try:
            getattr(module, each)
        except ImportError as error:
            # What a wheel does not bring, as PyTorch, is named with how to get it.
            assert "Install it with: pip install 'spdl-turbo[" in str(error)  # noqa: PT017


def test_versions_are_told() -> None:
    assert set(get_ffmpeg_versions()) >= {"libavcodec", "libavformat", "libavfilter", "libavutil"}
    assert "GPL" in get_ffmpeg_license()
    assert get_libjpeg_turbo_version() >= (2, 1, 0)


PIPELINE = """
from spdl.io import load_image_batch, to_numpy
from spdl.pipeline import PipelineBuilder

def load(photos):
    return to_numpy(load_image_batch(photos, width=16, height=12)).shape

if __name__ == "__main__":
    photo = {photo!r}
    pipeline = PipelineBuilder().add_source([photo] * 8).aggregate(4).pipe(load, concurrency=2).add_sink().build(
        num_threads=2)
    with pipeline.auto_stop():
        print([*pipeline])
"""


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=50, env={**os.environ, **environment}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_pipeline_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PIPELINE.format(photo=make_jpeg(30, 20)))
    assert run(sys.executable, "-W", "error", str(program)) == "[(4, 12, 16, 3), (4, 12, 16, 3)]\n"


def test_the_command_is_there() -> None:
    command = Path(sys.executable).with_name("spdl")
    assert "usage: spdl" in run(str(command), "--help")


GPU_CALLS = """
import sys
from spdl import io
from spdl.io import utils
photo = {photo!r}
for name, call in {{
    "cpu_storage": lambda: io.cpu_storage(100),
    "cuda_config": lambda: io.cuda_config(0),
    "decode_image_nvjpeg": lambda: io.decode_image_nvjpeg(photo),
    "nvdec_decoder": lambda: io.NvDecDecoder() and io.cuda_config(0),
}}.items():
    try:
        call()
    except RuntimeError as error:
        print(name, "|", error)
print(utils.built_with_cuda(), utils.built_with_nvjpeg(), utils.built_with_nvcodec(), utils.cuda_info().driver.usable)
"""


def test_without_a_gpu_each_call_says_what_it_needs() -> None:
    printed = run(sys.executable, "-c", GPU_CALLS.format(photo=make_jpeg()), **{VARIABLE: "/none/libcuda.so"})
    *told, last = printed.splitlines()
    assert len(told) == 4
    for line in told:
        assert "needs a GPU. CUDA's driver library cannot be loaded" in line
    assert last == "False False False False"


@pytest.mark.usefixtures("wheel")
def test_beside_a_wheel_no_command_compiles() -> None:
    assert [name for name in ("cc", "c++", "gcc", "g++", "clang", "cmake", "ninja", "nasm") if shutil.which(name)] == []


def test_nothing_of_the_package_is_left_untested_here() -> None:
    """A function that loads is called above: a new one is not forgotten."""
    text = Path(__file__).read_text(encoding="utf-8")
    loads: Callable[[str], bool] = lambda name: name.startswith(("load_", "save_", "decode_", "iter_", "sample_"))  # noqa: E731
    on_gpu = {"decode_packets_nvdec", "load_image_batch_nvjpeg"}
    assert [name for name in spdl.io.__all__ if loads(name) and f"{name}(" not in text and name not in on_gpu] == []
