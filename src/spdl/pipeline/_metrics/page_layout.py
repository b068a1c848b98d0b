"""How the page of a running pipeline is laid out: the file in memory through which other processes watch it.

The file has three parts, in this machine's byte order:

* The head, which never changes: `HEAD`, and behind it a text in JSON that describes the process and the stages.
* What threads do now, as 64-bit floats that their owners write without a lock: since when a consumer waits, and a row
  for each thread that runs ops, with its number and when it last began to be idle, to pull a source or to run an op.
  The greatest of these times says what it does now.
* Two copies of the counters, which are written in turn: the fields of `Sample`, durations in seconds, and times as
  `time.perf_counter` tells them, of which a machine has one for all processes. Each copy has its number and a checksum.
  So one of them is whole at any time, also where the process was killed while it wrote.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from .page_columns import COLUMNS
from .sample import PIPELINE_VALUES, SOURCE_VALUES, STAGE_VALUES

__all__ = [
    "COPY",
    "HEAD",
    "LOCKED_SINCE",
    "MAGIC",
    "VERSION",
    "Layout",
    "checksum",
]

MAGIC = b"SPDLPAGE"
VERSION = 4
# Whoever writes a page has it locked for itself (`flock`) since this version. So it is known to be alive also where its
# number means nothing.
LOCKED_SINCE = 2

# The magic, the version, the checksum of the text, its length, and that of the file.
HEAD = Struct("=8sIIQQ")
# What precedes and follows the counters: the number of the copy and its checksum, and once more the number.
COPY = Struct("=QQ")
_AFTER = 8
_FLOAT = 8


class Layout(NamedTuple):
    """Where everything is in the page of a pipeline.

    Attributes:
        text: How many bytes the text of the head has.
        sources: How many sources there are.
        stages: How many stages.
        rows: How many rows there are for threads.
    """

    text: int
    sources: int
    stages: int
    rows: int

    @property
    def columns(self) -> int:
        """How many floats a row has."""
        return COLUMNS + self.sources + self.stages

    @property
    def values(self) -> int:
        """How many floats a copy of the counters has."""
        return len(PIPELINE_VALUES) + self.sources * len(SOURCE_VALUES) + self.stages * len(STAGE_VALUES)

    @property
    def threads_at(self) -> int:
        """Where what the threads do now begins. It is aligned, so that no float is seen half written."""
        return -(-(HEAD.size + self.text) // 64) * 64

    @property
    def threads(self) -> int:
        """How many floats that part has."""
        return 1 + self.rows * self.columns

    @property
    def copy_size(self) -> int:
        """How many bytes a copy has."""
        return COPY.size + _FLOAT * self.values + _AFTER

    def copy_at(self, number: int) -> int:
        """Return where the copy with a number is."""
        return self.threads_at + _FLOAT * self.threads + number % 2 * self.copy_size

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self.copy_at(1) + self.copy_size


def checksum(number: int, payload: bytes) -> int:
    """Return what the counters of a copy are checked by: they belong to its number, too."""
    return crc32(payload, number & 0xFFFFFFFF)
