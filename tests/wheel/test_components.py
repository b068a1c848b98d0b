"""The parts of the wheel's FFmpeg: all that were asked for are there, and none that opens files on its own."""

import ctypes
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.io.image.test_ffmpeg import load_library

SCRIPTS = Path(__file__).parents[2] / "scripts"
SCRIPT = SCRIPTS / "bundle" / "ffmpeg.sh"
pytestmark = pytest.mark.usefixtures("wheel")

PCM = " ".join(
    f"pcm_{sample}"
    for sample in ("u8", "s16le", "s16be", "s24le", "s24be", "s32le", "s32be", "f32le", "f32be", "f64le", "f64be")
)
NEEDED = {
    "decoder": f"""h264 hevc vp8 vp9 libdav1d mpeg4 mjpeg prores mpeg1video mpeg2video theora ffv1 rawvideo png aac mp3
        opus vorbis flac alac pcm_mulaw pcm_alaw {PCM}""",
    "encoder": f"mpeg4 ffv1 libvpx-vp9 mjpeg png rawvideo libopus opus aac flac alac pcm_mulaw pcm_alaw {PCM}",
    "demuxer": "mov mp4 matroska webm avi mpegts mpeg ogg wav flac mp3 aac aiff caf ivf h264 hevc",
    "muxer": "mov mp4 matroska webm avi mpegts ogg opus wav flac adts ipod",
    "bsf": """h264_mp4toannexb hevc_mp4toannexb extract_extradata aac_adtstoasc vp9_superframe vp9_superframe_split
        dump_extra null noise setts h264_metadata""",
    "filter": """aformat aresample atrim apad anull asetpts asetnsamples volume pan amix amerge asplit aeval atempo
        concat sine anullsrc aevalsrc testsrc testsrc2 color fps trim setpts scale pad crop tpad format hflip vflip
        transpose rotate split overlay null hstack vstack setsar setdar select framerate""",
}
"""What any program may count on, by FFmpeg's names."""

LOOK_UP = {
    "decoder": ("libavcodec", "avcodec_find_decoder_by_name"),
    "encoder": ("libavcodec", "avcodec_find_encoder_by_name"),
    "bsf": ("libavcodec", "av_bsf_get_by_name"),
    "demuxer": ("libavformat", "av_find_input_format"),
    "muxer": ("libavformat", "av_guess_format"),
    "filter": ("libavfilter", "avfilter_get_by_name"),
}


def missing(kind: str, names: list[str]) -> list[str]:
    library, name = LOOK_UP[kind]
    look_up = load_library(library)[name]
    look_up.restype = ctypes.c_void_p
    rest = (None, None) if kind == "muxer" else ()
    return [name for name in names if look_up(name.encode(), *rest) is None]


def asked_for(lists: str) -> list[str]:
    """Return the names in the lists of the script that configures FFmpeg, as they are in the libraries."""
    text = SCRIPT.read_text(encoding="utf-8")
    found = [
        name
        for part in re.findall(rf"^readonly \w*{lists}='\n(.*?)\n'", text, re.MULTILINE | re.DOTALL)
        for name in part.split()
    ]
    renamed = {
        "libvpx_vp9": "libvpx-vp9",
        "dump_extradata": "dump_extra",
        "remove_extradata": "remove_extra",
        "msmpeg4v3": "msmpeg4",
    }
    return [renamed.get(name, name) for name in found if "*" not in name]


@pytest.mark.parametrize("kind", NEEDED)
def test_what_programs_count_on_is_there(kind: str) -> None:
    assert missing(kind, NEEDED[kind].split()) == []


@pytest.mark.parametrize(("kind", "least"), [("decoder", 80), ("encoder", 30), ("bsf", 25), ("filter", 300)])
def test_configure_left_nothing_out(kind: str, least: int) -> None:
    names = asked_for(f"{kind}s")
    assert len(names) >= least
    assert missing(kind, names) == []


def parsed() -> Iterator[str]:
    """Yield the codecs that the library has a parser for."""
    avcodec = load_library("libavcodec")
    avcodec.av_parser_iterate.restype = ctypes.POINTER(ctypes.c_int * 7)
    avcodec.avcodec_get_name.restype = ctypes.c_char_p
    state = ctypes.c_void_p()
    while parser := avcodec.av_parser_iterate(ctypes.byref(state)):
        yield from (avcodec.avcodec_get_name(codec).decode() for codec in parser.contents if codec)


def test_streams_without_a_container_can_be_cut_into_packets() -> None:
    video = {"h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mpeg1video", "mpeg2video", "mjpeg", "png"}
    assert set(parsed()) >= video | {"aac", "mp3", "opus", "vorbis", "flac", "ac3"}


def test_no_medium_and_no_filter_can_have_another_file_opened() -> None:
    demuxers = ["concat", "image2", "hls", "dash", "rtsp", "sdp", "webm_dash_manifest", "imf", "vobsub"]
    assert missing("demuxer", demuxers) == demuxers
    filters = ["movie", "amovie", "subtitles", "drawtext", "lut3d", "frei0r", "ladspa", "zmq"]
    assert missing("filter", filters) == filters


@pytest.mark.parametrize("output", [0, 1])
def test_files_are_the_only_protocol(output: int) -> None:
    avformat = load_library("libavformat")
    avformat.avio_enum_protocols.restype = ctypes.c_char_p
    state = ctypes.c_void_p()
    found = []
    while name := avformat.avio_enum_protocols(ctypes.byref(state), output):
        found.append(name.decode())
    assert found == ["file"]


def test_what_is_called_not_built_where_vulnerabilities_are_explained_is_not_there() -> None:
    known = tomllib.loads((SCRIPTS / "vulnerabilities.toml").read_text(encoding="utf-8"))["ffmpeg"]["known"]
    said = {each["not_built"] for each in known.values() if "not_built" in each}
    absent = {kind: [each.split()[1] for each in said if each.split()[0] == kind] for kind in LOOK_UP}
    assert len(absent["decoder"]) > 10
    assert absent == {kind: missing(kind, names) for kind, names in absent.items()}
