"""Frames of a video by index and by time, in any order."""

from __future__ import annotations

import bisect
import logging
import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spdl._check import check_choice, check_flag, check_instance, check_int, check_number, refuse
from spdl.io._av.demuxer import best_stream, open_container
from spdl.io._av.time_window import parse_window
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._device.cuda import choose_device, kernel_folder, search_packages
from spdl.io._image.config import DecodeConfig, decode_options
from spdl.io._image.gpu_images import leaves_choice
from spdl.io._image.options import (
    PIXEL_FORMATS,
    Dtype,
    Interpolation,
    Layout,
    Mode,
    make_array_format,
    make_load_options,
    resize_to,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from spdl.io._av.time_window import Seconds
    from spdl.io._device.cuda import CUDAConfig
    from spdl.io._image.config import DemuxConfig
    from spdl.io._image.image import ImageInput
    from spdl.io._native import VideoCodec, VideoFrames

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
        count = len(self.keys)
        if {len(self.times), len(self.places)} != {8 * count} or len(self.hidden) != count:
            raise ValueError(
                f"a VideoIndex has 8 bytes of `times` and of `places`, 1 of `keys` and 1 of `hidden` for each packet, "
                f"got {len(self.times)}, {len(self.places)}, {count} and {len(self.hidden)}: it was damaged"
            )


def make_index(state: State, stream: int) -> VideoIndex:
    times, places, keys, hidden, timed, joined, damage = state
    return VideoIndex(
        array("q", times).tobytes(), array("q", places).tobytes(), keys, hidden, timed, stream, damage, joined
    )


def index_state(index: VideoIndex) -> State:
    times, places = array("q"), array("q")
    times.frombytes(index.times)
    places.frombytes(index.places)
    return times.tolist(), places.tolist(), index.keys, index.hidden, index.timed, index.joined, index.damage


class VideoReader:
    """A video whose frames can be read by index and by time, in any order, each exactly.

    Opening it looks at every packet once, without decoding any, and so knows when each frame is shown; with an
    `index` that is known already it need not. Reading decodes from the last key frame before a frame, or continues from
    the frame read last if that is nearer. Frames come resized and normalised as in `load_image_batch`. Nothing is
    cached but the decoder's own state.

    A file that is damaged at some place, or cut off, has the frames before that place; `damage` says what is wrong, and
    the logger ``spdl.io`` warns.

    Any number of threads may use a reader; one at a time reads, without the GIL. Readers can be pickled if they were
    made of a path or of bytes: the other process opens the file again, with the same index.

    With `device`, the video engines of a GPU decode, and kernels resize and convert: each picture at its full size, as
    with ``exact=True``. Other videos are an error that says why.

    Args:
        src: A path, the bytes of a file (kept and read in place), or an open binary file that can seek.
        width, height: The size of the pictures in pixels. None follows from the other side, or is the video's own.
        mode: How pictures of another shape get the size: ``"pad"`` centres them on black, ``"crop"`` cuts off what is
            too much on both sides, ``"stretch"`` distorts them. It needs both sides.
        interpolation: ``"nearest"``, ``"area"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
        pix_fmt: ``"rgb24"``, ``"bgr24"`` or ``"gray"``.
        layout: ``"NHWC"`` or ``"NCHW"``.
        dtype: ``"uint8"``, or ``"float16"`` or ``"float32"`` for values of ``(byte / 255 - mean) / std``.
        mean, std: A number for each channel. None is 0 and 1.
        exact: Whether every picture is converted at its full size and then resized as Pillow does it, as
            `load_image_batch` does. By default the planes of brightness and chroma are resized with the same filters,
            and then converted, which takes a fraction of the time: values differ by at most one level from exact
            arithmetic on these planes. FFmpeg's filters scale pictures that have no planes of 8 bits, or keep their
            size, and all with ``"nearest"``. For FFmpeg's results bit by bit, see `load_video`.
        rotate: Whether to turn pictures upright as the file says, as with phones. `rotation` is the angle.
        stream: The index of the stream. None is the main video stream.
        index: The `index` of a reader of the same file. None reads the file through.
        demux_config, decode_config: How FFmpeg reads, and how to decode; see `demux_config` and `decode_config`.
        num_threads: How many threads the decoder may use. More than one pays for long runs of frames of large videos;
            for many videos it is better to read several at once.
        name: The file's name in errors. The default is the path, or the number of bytes.
        device: ``"cuda"`` or ``"cuda:1"``, say, to decode on a GPU and have the pictures there; a CUDAConfig of
            `cuda_config` also names the stream and the allocator. ``"cuda"`` is the GPU whose number is in the
            environment variable ``LOCAL_RANK``, or GPU 0. None and ``"cpu"`` decode on the CPU. With a GPU,
            `num_threads` and `exact` have no effect.

    Raises:
        RuntimeError: If the file cannot be read, or has no video. The message names it and quotes FFmpeg. With a
            device, if there is no GPU, or it does not decode such a video.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If an argument is out of range.

    Example:
        >>> reader = VideoReader(clip, width=32, height=32)
        >>> len(reader), reader.fps, reader.duration
        (25, 25.0, 1.0)
        >>> reader.read_frames([20, 3, 3]).shape
        (3, 32, 32, 3)
        >>> reader.read_at([0.5]).shape, reader.read(0.2, 0.4).shape
        ((1, 32, 32, 3), (5, 32, 32, 3))
    """

    def __init__(
        self,
        src: ImageInput,
        *,
        width: int | None = None,
        height: int | None = None,
        mode: Mode = "pad",
        interpolation: Interpolation = "bicubic",
        pix_fmt: str = "rgb24",
        layout: Layout = "NHWC",
        dtype: Dtype = "uint8",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        exact: bool = False,
        rotate: bool = True,
        stream: int | None = None,
        index: VideoIndex | None = None,
        demux_config: DemuxConfig | None = None,
        decode_config: DecodeConfig | None = None,
        num_threads: int = 1,
        name: str | None = None,
        device: str | CUDAConfig | Any = None,
    ) -> None:
        # The arguments with which another process opens the file again.
        self._arguments = src, {k: v for k, v in locals().items() if k not in {"self", "src", "index"}}
        self._gpu = choose_device(device)
        check_choice("pix_fmt", pix_fmt, tuple(PIXEL_FORMATS))
        both = width is not None and height is not None
        resize = resize_to(width, height, mode if both else "stretch", interpolation, pix_fmt)
        self._request = make_load_options(
            resize,
            make_array_format(layout, dtype, mean, std),
            exact=check_flag("exact", exact),
            exif=check_flag("rotate", rotate),
        )
        self._dtype = dtype
        self._picture: tuple[int, ...] | None = None
        if both:
            channels = (PIXEL_FORMATS[pix_fmt],)
            self._picture = (*channels, *resize.target[::-1]) if layout == "NCHW" else (*resize.target[::-1], *channels)
        if index is not None:
            check_instance("index", index, VideoIndex, "a VideoIndex, as `VideoReader.index` returns, or None")
            if stream not in (None, index.stream):
                refuse(ValueError, "stream", f"None or {index.stream}, which the index belongs to", stream)
            stream = index.stream
        if self._gpu is not None and not leaves_choice(None, decode_config):
            refuse(ValueError, "decode_config", "without a decoder and its options if a GPU decodes", decode_config)
        options = decode_options(_with_threads(decode_config, check_int("num_threads", num_threads, least=1)))
        container, _ = open_container(src, demux_config, name, packets_only=True)
        self._stream = best_stream(container, audio=False) if stream is None else check_int("stream", stream, least=0)
        state = None if index is None else index_state(index)
        self._native = native.VideoReader(container, self._stream, options, state)
        if self._gpu is not None:
            search_packages()
            self._native.use_gpu(device=self._gpu.device_index, stream=self._gpu.stream)
        self._times = self._native.times()
        self._damage = self._native.damage()
        if self._damage and index is None:
            _LOG.warning("%s: %s. A VideoReader reads the %d frames before.", container.name(), self._damage, len(self))

    def __len__(self) -> int:
        return len(self._times)

    @property
    def codec(self) -> VideoCodec:
        """The properties that the stream states about itself."""
        return self._native.codec()

    @property
    def index(self) -> VideoIndex:
        """The positions of the frames, for another reader of the same file."""
        return make_index(self._native.index(), self._stream)

    @property
    def damage(self) -> str | None:
        """The damage after the last readable frame, such as that the file was cut off. None if it is whole.

        The reader has the frames before the damage. Damage within a frame shows when the frame is read, as an error.
        """
        return self._damage or None

    @property
    def timestamps(self) -> list[float]:
        """When each frame is shown, in seconds."""
        return list(self._times)

    @property
    def key_frames(self) -> list[int]:
        """The frames that decoding can begin with, in the order in which they are shown."""
        return self._native.key_frames()

    @property
    def fps(self) -> float:
        """The average number of frames per second, 0 if the file has one frame and does not say.

        It is the rate that the file says, unless the times of the frames say otherwise.
        """
        return self._native.rate()

    @property
    def duration(self) -> float:
        """The seconds from the first frame to the end of the last one, which counts as long as the median frame."""
        if not self._times:
            return 0.0
        return round(self._times[-1] - self._times[0] + self._native.usual_step(), 9)

    @property
    def rotation(self) -> int:
        """The degrees that a viewer turns the pictures clockwise, which is 0, 90, 180 or 270."""
        return self._native.rotation()

    def read_frames(self, indices: Iterable[int], *, storage: Storage | None = None) -> Any:
        """Read frames by index.

        Args:
            indices: The frames, in any order; one that is named twice is decoded once. Negative ones count from the
                end.
            storage: The memory for the array: a `cpu_storage`, or a writable array. None allocates new memory. Only
                without a device.

        Returns:
            The frames in the order of the indices: uint8 (N, H, W, C), or as the arguments of the reader say. The
            memory is the array's own, or the storage's. With a device it is a `CUDABuffer`, and all work on it is
            done. Its declared type is a union, as the device is not known before the reader runs.

        Raises:
            IndexError: If there is no such frame.
            RuntimeError: If a frame cannot be read or decoded, or the storage is too small.
            TypeError, ValueError: If an index is not an int, or no indices are given.
        """
        if not isinstance(indices, Iterable):
            refuse(TypeError, "indices", "an iterable of ints", indices)
        wanted = [self._checked(index) for index in indices]
        if not wanted:
            refuse(ValueError, "indices", "at least one frame", indices)
        if self._gpu is not None:
            if storage is not None:
                refuse(ValueError, "storage", "None if a GPU decodes into its own memory", storage)
            return self._native.read_on_gpu(
                wanted,
                self._request,
                device=self._gpu.device_index,
                stream=self._gpu.stream,
                allocator=self._gpu.allocator,
                kernel_folder=kernel_folder(),
            )
        shape = None if self._picture is None else (len(wanted), *self._picture)
        return self._native.read(wanted, self._request, resolve_storage(storage, shape, self._dtype))

    def read_at(self, seconds: Iterable[float], *, storage: Storage | None = None) -> Any:
        """Read the frames that are on the screen at some moments.

        Args:
            seconds: The moments, in any order, on the clock of the file, which need not begin at 0 (see `timestamps`).
                Each must lie between the first frame and the end of the last one.
            storage: As for `read_frames`.

        Returns:
            The frames in the order of the moments, as `read_frames` returns them.

        Raises:
            RuntimeError: If a frame cannot be read or decoded, or the storage is too small.
            TypeError: If a moment is not a number.
            ValueError: If no moments are given, or one lies outside of the video.
        """
        if not isinstance(seconds, Iterable):
            refuse(TypeError, "seconds", "an iterable of numbers", seconds)
        return self.read_frames([self._frame_at(moment) for moment in seconds], storage=storage)

    def read(self, start: Seconds = -math.inf, stop: Seconds = math.inf, *, storage: Storage | None = None) -> Any:
        """Read the frames that appear within a window.

        Args:
            start: The first moment in seconds on the clock of the file: a number, Fraction, Decimal or str.
            stop: The moment that is not part of the window any more.
            storage: As for `read_frames`.

        Returns:
            The frames in the order in which they are shown, as `read_frames` returns them.

        Raises:
            RuntimeError: If a frame cannot be read or decoded, or the storage is too small.
            TypeError: If a moment has the wrong type.
            ValueError: If the window is empty (also an `IndexError`), or no frame appears within it.
        """
        bounds = parse_window("start, stop", (start, stop))
        low, high = (None if bound is None else bound[0] / bound[1] for bound in bounds)
        first = 0 if low is None else bisect.bisect_left(self._times, low - _TOLERANCE)
        last = len(self) if high is None else bisect.bisect_left(self._times, high - _TOLERANCE)
        if first >= last:
            refuse(ValueError, "start, stop", "a window in which a frame appears", (start, stop))
        return self.read_frames(range(first, last), storage=storage)

    def __getitem__(self, index: int | slice) -> Any:
        """Return the frame or the frames at an index or a slice, always as a batch: one frame is (1, H, W, C)."""
        return self.read_frames(range(*index.indices(len(self))) if isinstance(index, slice) else [index])

    def decode(self, indices: Iterable[int]) -> VideoFrames:
        """Return frames as the decoder makes them, in any order, for filters of FFmpeg's.

        Args:
            indices: As for `read_frames`.

        Raises:
            IndexError: If there is no such frame.
            RuntimeError: If a frame cannot be read or decoded.
            TypeError: If an index is not an int.
            ValueError: If the reader decodes on a GPU, which makes no frames for these filters.
        """
        if self._gpu is not None:
            accepted = "None or 'cpu' for decode(), as FFmpeg's filters work on the CPU"
            refuse(ValueError, "device", accepted, self._arguments[1]["device"])
        return self._native.frames([self._checked(index) for index in indices])

    def __reduce__(self) -> tuple[Any, ...]:
        src, keywords = self._arguments
        if hasattr(src, "read"):
            msg = "a VideoReader of an open file cannot be pickled: make it of a path, or of the file's content"
            raise TypeError(msg)
        return partial(VideoReader, index=self.index, **keywords), (src,)

    def __repr__(self) -> str:
        return f"VideoReader({self.codec!r}, {len(self)} frames)"

    def _checked(self, index: int) -> int:
        number = check_int("indices", index, least=None)
        if not -len(self) <= number < len(self):
            frames = f"frames from {-len(self)} to {len(self) - 1}"
            refuse(IndexError, "indices", frames if len(self) else "empty: this video has no frames", index)
        return number % len(self)

    def _frame_at(self, moment: float) -> int:
        seconds = check_number("seconds", moment, "a number of seconds")
        frame = bisect.bisect_right(self._times, seconds + _TOLERANCE) - 1
        end = self._times[0] + self.duration if self._times else 0.0
        if frame < 0 or not seconds < end + _TOLERANCE:
            first = self._times[0] if self._times else 0.0
            refuse(ValueError, "seconds", f"from {first} to before {end}, when frames are shown", moment)
        return frame


_LOG = logging.getLogger("spdl.io")

_TOLERANCE = 1e-7  # Seconds: timestamps such as 1001 / 30000 are not exact as floats.


def _with_threads(config: DecodeConfig | None, num_threads: int) -> DecodeConfig | None:
    if num_threads == 1:
        return config
    config = config if config is not None else DecodeConfig()
    return replace(config, decoder_options={**(config.decoder_options or {}), "threads": str(num_threads)})
