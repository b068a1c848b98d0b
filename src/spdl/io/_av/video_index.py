"""The positions of the frames of a video."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    State: TypeAlias = tuple[list[int], list[int], bytes, bytes, bool, bool, str]


@dataclass(frozen=True)
class VideoIndex:
    """The result of one look at all packets of a video; `VideoReader.index` returns it.

    Give it to the `VideoReader` of the same file, and that opens without reading the file through. It can be pickled
    and kept in a cache.

    Attributes:
        times: When the frame of each packet is shown, in units of the stream's time base, in the order in which packets
            are decoded: the bytes of 64-bit integers. If it is not `timed`, these are the times of all frames together.
        places: The position of each packet in the file, in bytes from its beginning: the bytes of 64-bit integers. A
            frame counts only if its packet is there.
        keys: A byte for each packet: 1 if decoding can begin with it. If it is not `timed`, these are in the order in
            which frames are shown.
        hidden: A byte for each packet: 1 if its frame is not shown.
        timed: Whether the file says when each frame is shown. Otherwise frames are counted from the beginning, so that
            reading one takes as long as decoding all before it.
        stream: The index of the stream in its file.
        damage: The point at which reading ended if the file is damaged or cut off, and why. "" for a whole file.
        joined: Whether the file consists of several files, each with its own clock. The times continue from one to the
            next, and reading a frame means to read the file up to it.

    Example:
        >>> reader = VideoReader(clip)
        >>> len(VideoReader(clip, index=reader.index))
        25
    """

    times: bytes
    places: bytes
    keys: bytes
    hidden: bytes
    timed: bool
    stream: int
    damage: str = ""
    joined: bool = False

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        count = len(self.keys)
        if {len(self.times), len(self.places)} != {8 * count} or len(self.hidden) != count:
            msg = (
                f"a VideoIndex has 8 bytes of `times` and of `places`, 1 of `keys` and 1 of `hidden` for each packet, "
                f"got {len(self.times)}, {len(self.places)}, {count} and {len(self.hidden)}: it was damaged"
            )
            raise ValueError(msg)


def make_index(state: State, stream: int) -> VideoIndex:
    """Return the index that native code has made."""
    times, places, keys, hidden, timed, joined, damage = state
    return VideoIndex(
        array("q", times).tobytes(), array("q", places).tobytes(), keys, hidden, timed, stream, damage, joined
    )


def index_state(index: VideoIndex) -> State:
    """Return the index as native code takes it."""
    times, places = array("q"), array("q")
    times.frombytes(index.times)
    places.frombytes(index.places)
    return times.tolist(), places.tolist(), index.keys, index.hidden, index.timed, index.joined, index.damage
