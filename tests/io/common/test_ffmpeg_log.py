"""FFmpeg's log goes to Python's logging, from all of its threads, and nothing waits for Python to take it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.io.image.test_ffmpeg import load_library
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import decode_packets, demux_image, load_image
from spdl.io.utils import get_ffmpeg_log_level, set_ffmpeg_log_level

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Iterator

LOGGER = "spdl.io.ffmpeg"


@pytest.fixture
def avutil() -> ctypes.CDLL:
    return load_library("libavutil")


@pytest.fixture(autouse=True)
def levels(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, LOGGER)
    set_ffmpeg_log_level(8)
    caplog.clear()
    yield
    set_ffmpeg_log_level(8)


def call() -> None:
    """Call anything that works without the GIL."""
    decode_packets(demux_image(make_jpeg()))


def records(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOGGER]


def test_it_is_quiet_at_first(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    program = "from spdl.io.utils import get_ffmpeg_log_level; print(get_ffmpeg_log_level())"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"8\n"
    with pytest.raises(RuntimeError):
        load_image(make_jpeg(), filter_desc="no_such_filter")
    assert records(caplog) == []
    assert capfd.readouterr() == ("", "")


def test_an_error_is_logged_and_raised(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    set_ffmpeg_log_level(16)
    with pytest.raises(RuntimeError, match="no_such_filter"):
        load_image(make_jpeg(), filter_desc="no_such_filter")
    lines = records(caplog)
    assert any(level == "ERROR" and "no_such_filter" in line for level, line in lines)
    assert capfd.readouterr() == ("", "")


def test_lines_of_filters_come_with_the_call(caplog: pytest.LogCaptureFixture) -> None:
    set_ffmpeg_log_level(32)
    load_image(encode(make_image(60, 40), "PNG"), filter_desc="showinfo")
    assert any(level == "INFO" and "showinfo" in line and "60x40" in line for level, line in records(caplog))
    assert not any("\n" in line for _, line in records(caplog))


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (0, "CRITICAL"),
        (8, "CRITICAL"),
        (16, "ERROR"),
        (24, "WARNING"),
        (32, "INFO"),
        (40, "DEBUG"),
        (48, "DEBUG"),
        (24 | 0x8900, "WARNING"),
    ],
)
def test_every_level_has_one_in_python(
    avutil: ctypes.CDLL, caplog: pytest.LogCaptureFixture, level: int, name: str
) -> None:
    set_ffmpeg_log_level((level & 0xFF) - 1)
    avutil.av_log(None, level, b"too low\n")
    set_ffmpeg_log_level(level & 0xFF)
    avutil.av_log(None, level, b"%d lines of 100%%\n", 3)
    call()
    assert records(caplog) == [(name, "3 lines of 100%")]


def test_lines_in_pieces_are_put_together(avutil: ctypes.CDLL, caplog: pytest.LogCaptureFixture) -> None:
    set_ffmpeg_log_level(32)
    for piece in (b"one ", b"line ", b"only\n", b"another\n", b"\n", b"x" * 3000 + b"\n", b"after\n"):
        avutil.av_log(None, 32, b"%s", piece)
    avutil.av_log(None, 32, b"caf\xc3\xa9 \xff\n")
    call()
    lines = [line for _, line in records(caplog)]
    assert lines[:2] == ["one line only", "another"]
    assert set(lines[2]) == {"x"}
    assert len(lines[2]) > 1000
    assert lines[3:] == ["after", "café \\xff"]


def test_lines_of_other_threads_come_with_the_next_call(avutil: ctypes.CDLL, caplog: pytest.LogCaptureFixture) -> None:
    set_ffmpeg_log_level(24)
    # ctypes releases the GIL for the call, and FFmpeg's own threads never have it.
    threads = [threading.Thread(target=avutil.av_log, args=(None, 24, b"from elsewhere\n")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert records(caplog) == []
    call()
    assert records(caplog) == [("WARNING", "from elsewhere")] * 8


def test_a_flood_is_bounded(avutil: ctypes.CDLL, caplog: pytest.LogCaptureFixture) -> None:
    set_ffmpeg_log_level(24)
    for index in range(2500):
        avutil.av_log(None, 24, b"line %d\n", index)
    call()
    lines = records(caplog)
    assert lines[:1000] == [("WARNING", f"line {index}") for index in range(1000)]
    assert lines[1000:] == [
        ("WARNING", "1500 more lines of FFmpeg's log were dropped: a call of spdl.io logged over 1,000")
    ]


def test_logging_may_call_the_library_again(avutil: ctypes.CDLL) -> None:
    shapes = []

    class Decoding(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            avutil.av_log(None, 48, b"too low\n")
            shapes.append((record.getMessage(), load_image(make_jpeg()).shape))

    handler = Decoding()
    logging.getLogger(LOGGER).addHandler(handler)
    try:
        set_ffmpeg_log_level(24)
        avutil.av_log(None, 24, b"outer\n")
        call()
    finally:
        logging.getLogger(LOGGER).removeHandler(handler)
    assert [message for message, _ in shapes] == ["outer"]


def test_a_call_keeps_its_result_if_logging_fails(
    avutil: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    class Failing(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            msg = "of the filter"
            raise ValueError(msg)

    failures = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: failures.append(unraisable.exc_value))
    failing = Failing()
    logging.getLogger(LOGGER).addFilter(failing)
    try:
        set_ffmpeg_log_level(24)
        avutil.av_log(None, 24, b"one\n")
        assert load_image(make_jpeg()).shape[2] == 3
        avutil.av_log(None, 24, b"two\n")
        with pytest.raises(RuntimeError, match="no_such_filter"):
            load_image(make_jpeg(), filter_desc="no_such_filter")
    finally:
        logging.getLogger(LOGGER).removeFilter(failing)
    assert {str(failure) for failure in failures} == {"of the filter"}
    assert len(failures) > 2  # The last call logs an error itself.
    assert not recwarn.list


def test_threads_log_and_deliver_at_once(avutil: ctypes.CDLL, caplog: pytest.LogCaptureFixture) -> None:
    set_ffmpeg_log_level(24)

    def work() -> None:
        for _ in range(200):
            avutil.av_log(None, 24, b"[%s] %s\n", b"hammer", b"whole")
            call()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    call()
    assert records(caplog) == [("WARNING", "[hammer] whole")] * 1200


def test_the_last_lines_come_at_exit() -> None:
    program = (
        "import logging, sys\n"
        "from spdl.io.utils import set_ffmpeg_log_level\n"
        "from tests.io.image.test_ffmpeg import load_library\n"
        "logging.basicConfig(stream=sys.stdout, format='%(levelname)s %(name)s %(message)s')\n"
        "set_ffmpeg_log_level(24)\n"
        "load_library('libavutil').av_log(None, 16, b'late\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("ERROR spdl.io.ffmpeg late\n", "")


@pytest.mark.parametrize("level", ["24", 24.0, None])
def test_the_level_is_an_int(level: object) -> None:
    with pytest.raises(TypeError, match=r"^`val` must be"):
        set_ffmpeg_log_level(level)  # type: ignore[arg-type]


def test_the_level_is_kept() -> None:
    for level in (-8, 0, 56, 1000):
        set_ffmpeg_log_level(level)
        assert get_ffmpeg_log_level() == level
    with pytest.raises(ValueError, match=r"^`val` must be"):
        set_ffmpeg_log_level(2**31)
