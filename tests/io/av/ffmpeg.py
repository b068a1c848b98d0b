"""The ffmpeg and ffprobe commands of the system, which make the tests' media and are an oracle for what is in them."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess

import pytest

_SECONDS = 60


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


def run_ffmpeg(*arguments: object) -> bytes:
    """Run `ffmpeg ARGUMENTS` on one thread and return what it writes to its standard output.

    Raises:
        FFmpegError: If the command fails.
    """
    need_ffmpeg()
    return _run("ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", *map(str, arguments))


def pipe_ffmpeg(data: bytes, *arguments: object) -> bytes:
    """Do what `run_ffmpeg` does, with these bytes on the command's standard input."""
    need_ffmpeg()
    return _run("ffmpeg", "-hide_banner", "-v", "error", "-y", *map(str, arguments), data=data)


def run_ffprobe(*arguments: object) -> bytes:
    """Run `ffprobe ARGUMENTS` and return what it writes to its standard output.

    Raises:
        FFmpegError: If the command fails.
    """
    need_ffmpeg()
    return _run("ffprobe", "-hide_banner", "-v", "error", *map(str, arguments))


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


def _run(*command: str, data: bytes = b"") -> bytes:
    done = subprocess.run(command, check=False, capture_output=True, input=data, timeout=_SECONDS)
    if done.returncode:
        raise FFmpegError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
