"""The ffmpeg and ffprobe commands of the system, which make the tests' media and are an oracle for what is in them.

What a command has made of the same input is kept in the user's cache, since starting it takes longer than most tests.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.io.kept import CACHE, digest, kept_bytes

from spdl.io import VideoReader
from spdl.io.utils import get_ffmpeg_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS = 60
# The start of an absolute path, and not a fraction.
_PATH = re.compile(r"(?<![\w.])/\w")


class FFmpegError(Exception):
    """Raised when the command fails. The message holds what it wrote to its standard error."""


def need_ffmpeg() -> None:
    """Skip the test where the system has no ffmpeg or no ffprobe command."""
    missing = [name for name in ("ffmpeg", "ffprobe") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"the system has no command {' or '.join(missing)} (Debian: apt-get install ffmpeg)")


def need_encoder(*names: str) -> str:
    """Return the first of these encoders that the ffmpeg command has. Skip the test if it has none."""
    need_ffmpeg()
    for name in names:
        if name in encoders():
            return name
    pytest.skip(f"the ffmpeg command has no encoder {' or '.join(names)}")


def need_decoder(path: Path) -> None:
    """Skip the test if our FFmpeg has no decoder of a video."""
    try:
        VideoReader(path)
    except RuntimeError as error:
        if "FFmpeg has no decoder" not in str(error):
            raise
        pytest.skip("not every FFmpeg has a decoder of it")


@functools.cache
def has_another_version() -> bool:
    """Return whether the command's libavcodec is another one than ours: some of it has changed since."""
    need_ffmpeg()
    told = subprocess.run(["ffmpeg", "-version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"libavcodec +(\d+)\. *(\d+)", told)
    assert found is not None, told
    return (int(found[1]), int(found[2])) != get_ffmpeg_versions()["libavcodec"][:2]


def run_ffmpeg(*arguments: object) -> bytes:
    """Run `ffmpeg ARGUMENTS` on one thread and return what it writes to its standard output.

    Files are given as paths: those behind ``-i`` are read, and others are written.

    Raises:
        FFmpegError: If the command fails.
    """
    need_ffmpeg()
    read = [it for before, it in itertools.pairwise(arguments) if isinstance(it, Path) and before == "-i"]
    written = [it for it in arguments if isinstance(it, Path) and it not in read]
    return _kept_run(("ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", *arguments), read, written)


def pipe_ffmpeg(data: bytes, *arguments: object) -> bytes:
    """Do what `run_ffmpeg` does, with these bytes on the command's standard input."""
    need_ffmpeg()
    return _kept_run(("ffmpeg", "-hide_banner", "-v", "error", "-y", *arguments), [], [], data)


def run_ffprobe(*arguments: object) -> bytes:
    """Run `ffprobe ARGUMENTS` and return what it writes to its standard output.

    Raises:
        FFmpegError: If the command fails.
    """
    need_ffmpeg()
    read = [it for it in arguments if isinstance(it, Path)]
    return _kept_run(("ffprobe", "-hide_banner", "-v", "error", *arguments), read, [])


@functools.cache
def encoders() -> frozenset[str]:
    """Return the names of the encoders that the ffmpeg command has."""
    listed = _run("ffmpeg", "-v", "error", "-encoders").decode()
    return frozenset(re.findall(r"^ [VAS][.A-Z]{5} (\S+)", listed, re.MULTILINE))


@functools.cache
def version() -> str:
    """Return the line that names the version of the ffmpeg command and of the compiler that made it."""
    need_ffmpeg()
    return _run("ffmpeg", "-version").decode().splitlines()[0]


def _kept_run(command: Sequence[object], read: Sequence[Path], written: Sequence[Path], data: bytes = b"") -> bytes:
    """Do what `_run` does, or take what came of it before: its output, and the files that it wrote."""
    words = list(map(str, command))
    # A file that is named inside of a word is not known here.
    named = any(_PATH.search(word) for word, it in zip(words, command, strict=True) if not isinstance(it, Path))
    if named or not all(path.is_file() for path in read):
        return _run(*words, data=data)
    # Of files, their contents and suffixes count.
    what = [(it.suffix, it in read) if isinstance(it, Path) else it for it in command]
    path = CACHE / "test-ffmpeg" / digest(version(), what, *read, *([data] if data else []))

    def make() -> bytes:
        output = _run(*words, data=data)
        return zlib.compress(pickle.dumps((output, [it.read_bytes() for it in written])), 1)

    output, contents = pickle.loads(zlib.decompress(kept_bytes(path, make)))
    for each, content in zip(written, contents, strict=True):
        each.write_bytes(content)
    return bytes(output)


def _run(*command: str, data: bytes = b"") -> bytes:
    done = subprocess.run(command, check=False, capture_output=True, input=data, timeout=_SECONDS)
    if done.returncode:
        raise FFmpegError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
