"""demux_image: inputs to packets."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import convert_frames, decode_packets, demux_config, demux_image, load_image_batch, to_numpy


@pytest.mark.parametrize(
    ("subsampling", "pix_fmt"), [("4:4:4", "yuvj444p"), ("4:2:2", "yuvj422p"), ("4:2:0", "yuvj420p")]
)
def test_a_jpeg_tells_what_it_holds(subsampling: str, pix_fmt: str) -> None:
    packets = demux_image(make_jpeg(120, 90, subsampling=subsampling))
    assert (packets.width, packets.height, packets.pix_fmt) == (120, 90, pix_fmt)
    codec = packets.codec
    assert (codec.name, codec.width, codec.height, codec.pix_fmt) == ("mjpeg", 120, 90, pix_fmt)
    assert codec.time_base == (1, 25)
    assert repr(codec) == f"ImageCodec(mjpeg, 120x90, {pix_fmt})"


def test_other_formats_tell_what_they_hold_too() -> None:
    codec = demux_image(encode(make_image(30, 20).convert("RGBA"), "PNG")).codec
    assert (codec.name, codec.width, codec.height, codec.pix_fmt) == ("png", 30, 20, "rgba")


def test_names_that_are_not_utf8_can_be_opened(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9.jpg")
    Path(name).write_bytes(make_jpeg(20, 10))
    assert demux_image(name).width == 20
    assert demux_image(Path(name)).width == 20


def test_a_changed_file_does_not_change_the_packets(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(make_jpeg(20, 10))
    packets = demux_image(path)
    path.write_bytes(b"")
    assert convert_frames(decode_packets(packets)).shape == (10, 20, 3)


def test_packets_keep_their_bytes_alive() -> None:
    packets = demux_image(bytearray(make_jpeg(20, 10)))
    assert convert_frames(decode_packets(packets)).shape == (10, 20, 3)


@pytest.mark.parametrize("data", [b"", b"\0", b"neither picture nor film", b"\xff\xd8", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_an_error_that_names_it(data: bytes) -> None:
    with pytest.raises(RuntimeError, match=f"^image of {len(data)} bytes: "):
        decode_packets(demux_image(data))
    with pytest.raises(RuntimeError, match=r"^the logo: "):
        decode_packets(demux_image(data, name="the logo"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing.jpg"
    with pytest.raises(RuntimeError, match=re.escape(f"{path}: cannot open the file: No such file or directory")):
        demux_image(path)


def test_a_directory_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="it is a directory"):
        demux_image(tmp_path)


@pytest.mark.parametrize("path", ["a\0b.jpg", "ä\0b.jpg"])
def test_a_null_character_in_a_path_is_shown(path: str) -> None:
    shown = path.replace("\0", "\\x00")
    with pytest.raises(
        RuntimeError, match=re.escape(f"{shown}: cannot open the file: its path holds a null character")
    ):
        demux_image(path)


def test_an_empty_path_is_called_one() -> None:
    with pytest.raises(RuntimeError, match=r"^'': cannot open the file: its path is empty$"):
        demux_image("")


def test_a_signal_does_not_disturb_the_opening_of_a_file(tmp_path: Path) -> None:
    # Opening a pipe waits for somebody to write to it; Python's handlers let signals interrupt that.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    caught: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    reader = threading.get_ident()

    def disturb_and_write() -> None:
        for _ in range(20):
            time.sleep(0.01)
            signal.pthread_kill(reader, signal.SIGUSR1)
        pipe.write_bytes(make_jpeg(20, 10))

    writer = threading.Thread(target=disturb_and_write)
    try:
        writer.start()
        assert demux_image(pipe).width == 20
        writer.join()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert caught


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("writer_is_there", [False, True])
def test_a_signal_handler_can_end_the_wait_for_a_file(tmp_path: Path, *, writer_is_there: bool) -> None:
    # As Ctrl-C does, whose handler raises KeyboardInterrupt: first where the pipe is opened, then where it is read.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    over = threading.Event()
    reader = threading.get_ident()

    def raise_interrupted(_number: int, _frame: object) -> None:
        raise InterruptError

    def interrupt() -> None:
        writer = os.open(pipe, os.O_WRONLY) if writer_is_there else None
        time.sleep(0.2)
        signal.pthread_kill(reader, signal.SIGUSR1)
        if not over.wait(30):
            # It still waits: let the test fail, not hang.
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
        if writer is not None:
            os.close(writer)

    def load() -> None:
        interrupter.start()
        load_image_batch([pipe, make_jpeg()], width=8, height=8, strict=False)

    previous = signal.signal(signal.SIGUSR1, raise_interrupted)
    interrupter = threading.Thread(target=interrupt)
    try:
        with pytest.raises(InterruptError):
            load()
    finally:
        over.set()
        interrupter.join()
        signal.signal(signal.SIGUSR1, previous)


def test_the_demuxer_can_be_chosen() -> None:
    data = encode(make_image(20, 10), "PNG")
    assert demux_image(data, demux_config=demux_config(format="png_pipe", buffer_size=64)).width == 20
    with pytest.raises(RuntimeError, match='FFmpeg has no demuxer "no_such"'):
        demux_image(data, demux_config=demux_config(format="no_such"))
    with pytest.raises(RuntimeError, match='has no option "nonsense"'):
        demux_image(data, demux_config=demux_config(format_options={"nonsense": "1"}))
    with pytest.raises(RuntimeError, match=r'opens files by itself|FFmpeg has no demuxer "image2"'):
        demux_image(data, demux_config=demux_config(format="image2"))


def test_a_bitstream_filter_is_applied() -> None:
    jpeg = make_jpeg(20, 10)
    assert convert_frames(decode_packets(demux_image(jpeg, bsf="null"))).shape == (10, 20, 3)
    with pytest.raises(RuntimeError, match='bitstream filter "no_such"'):
        demux_image(jpeg, bsf="no_such")


def test_data_that_names_other_files_opens_none(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(encode(make_image(20, 10), "PNG"))
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n".encode()
    with pytest.raises(RuntimeError):
        decode_packets(demux_image(playlist))
    concat = f"ffconcat version 1.0\nfile '{secret}'\n".encode()
    with pytest.raises(RuntimeError, match=r'Impossible to open|FFmpeg has no demuxer "concat"'):
        decode_packets(demux_image(concat, demux_config=demux_config(format="concat", format_options={"safe": "0"})))


def test_clones_are_consumed_on_their_own() -> None:
    packets = demux_image(make_jpeg(20, 10))
    clone = packets.clone()
    first = to_numpy(convert_frames(decode_packets(packets)))
    with pytest.raises(TypeError, match=r"consumed by decode_packets: call clone\(\)"):
        decode_packets(packets)
    with pytest.raises(TypeError, match="consumed"):
        packets.clone()
    with pytest.raises(TypeError, match="consumed"):
        _ = packets.width
    assert repr(packets) == "ImagePackets(consumed)"
    assert (to_numpy(convert_frames(decode_packets(clone))) == first).all()
