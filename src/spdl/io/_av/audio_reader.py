"""Sound by time and by sample, in any order."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from spdl._check import check_choice, check_int, refuse
from spdl.io._av.demuxer import Demuxer
from spdl.io._av.filters import MAX_CHANNELS, MAX_RATE, filters_of, get_audio_filter_desc
from spdl.io._av.time_window import Seconds, parse_moment, parse_window
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._image.config import decode_options

if TYPE_CHECKING:
    from types import TracebackType

    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.image import ImageInput
    from spdl.io._native import AudioCodec, CPUBuffer

SampleType: TypeAlias = Literal["float32", "int16"]

_FORMATS = {"float32": "fltp", "int16": "s16p"}
# The samples that FFmpeg's resampler looks at around one, at its default settings, and some more.
_FILTER_SIZE = 64


class AudioReader:
    """A sound that can be read in pieces, in any order, each exact to the sample.

    Samples are counted from the first one that the file gives, after the encoder's padding that the file declares;
    `start_time` says when that one is heard. They are counted by time: where the times in the file leave a gap of up to
    a day, silence is read (`load_audio` gives what there is, without the gap). Every piece is the part of the whole
    sound, resampled or not, bit by bit for most codecs. Opus, and AAC with noise substitution, which many encoders use,
    depend on all that came before; what is read of them is decoded from half a second, or four packets, earlier on, and
    Opus then differs by less than 0.00001. MP2 differs by less than 0.0001, as its decoder carries along what it rounds
    off; the decoder ``mp2float`` does not.

    A read without an end is one pass. `num_samples` and the first read of a part look at all packets, and decode the
    first and the last ones. For AC-3, and codecs whose packets do not declare their number of samples, such as E-AC-3,
    each read decodes from the beginning on. In files that were joined, and in Ogg, each part follows the one before.

    Any number of threads may use a reader, one at a time reads from the file, and none needs the GIL for that. Readers
    of a path or of bytes can be pickled; what they have found out goes along.

    Args:
        src: A path, the bytes of a file (kept and read in place: do not change them while the reader lives), or an open
            binary file with a ``seek``.
        sample_rate: The samples per second to resample to. None keeps the stored rate.
        num_channels: The number of channels to mix to, never beyond full scale: two become their mean. None keeps the
            stored ones.
        dtype: ``"float32"``, from -1 to 1, or ``"int16"``.
        demux_config, decode_config: How FFmpeg reads, and how to decode; see `demux_config` and `decode_config`.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Raises:
        RuntimeError: If the file cannot be read, or has no audio. The message names it and quotes FFmpeg.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If an argument is out of range.

    Example:
        >>> reader = AudioReader(sound, sample_rate=8000)
        >>> reader.num_samples, reader.num_channels, reader.duration
        (8000, 1, 1.0)
        >>> reader.read(0.25, 0.5).shape, reader.read_samples(100, 103).shape
        ((1, 2000), (1, 3))
    """

    def __init__(
        self,
        src: ImageInput,
        *,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        dtype: SampleType = "float32",
        demux_config: DemuxConfig | None = None,
        decode_config: DecodeConfig | None = None,
        name: str | None = None,
    ) -> None:
        if sample_rate is not None:
            sample_rate = check_int("sample_rate", sample_rate, least=1, most=MAX_RATE)
        if num_channels is not None:
            num_channels = check_int("num_channels", num_channels, least=1, most=MAX_CHANNELS)
        check_choice("dtype", dtype, tuple(_FORMATS))
        self._src = src
        self._config: dict[str, Any] = {k: v for k, v in locals().items() if k not in {"self", "src"}}
        self._decode_options = decode_options(decode_config)
        self._demuxer = Demuxer(src, demux_config=demux_config, name=name)
        try:
            self._codec = self._demuxer.audio_codec
        except BaseException:
            self._demuxer.close()
            raise
        self._name = self._demuxer.native().name()
        self._stored_extent: tuple[int, int, int] | None = None
        self._resampled: int | None = None

    @property
    def codec(self) -> AudioCodec:
        """The stream's own description; it is neither resampled nor mixed."""
        return self._codec

    @property
    def sample_rate(self) -> int:
        """The samples per second that reading gives."""
        return self._config["sample_rate"] or self._codec.sample_rate

    @property
    def num_channels(self) -> int:
        """The number of channels that reading gives."""
        return self._config["num_channels"] or self._codec.num_channels

    @property
    def num_samples(self) -> int:
        """The number of samples of each channel that reading everything gives. It is exact, also when resampling.

        The first access looks at all packets. RuntimeError if that fails.
        """
        start, samples, rate = self._extent()
        if rate == self.sample_rate:
            return samples
        if self._resampled is None:
            # The resampler alone knows how many samples it ends with.
            begin = self._aligned(max(0, samples - rate), rate)
            rest = self._decode(Fraction(start + begin, rate), None, "", None).shape[1] if samples else 0
            self._resampled = begin * self.sample_rate // rate + rest
        return self._resampled

    @property
    def duration(self) -> float:
        """The seconds from the first sample to the end of the last one, as decoding gives them."""
        _, samples, rate = self._extent()
        return samples / rate

    @property
    def start_time(self) -> float:
        """The moment of the first sample on the clock of the file, which other streams share."""
        start, _, rate = self._extent()
        return start / rate

    def read(self, start: Seconds = 0, stop: Seconds | None = None, *, storage: Storage | None = None) -> CPUBuffer:
        """Read the samples from a moment on, up to before another.

        Args:
            start: The moment in seconds after the first sample: a number, a ``Fraction``, a
                ``Decimal`` or a str such as ``"1/3"``.
            stop: The moment of the first sample that is not read. None, and all later moments than the end, are the
                end.
            storage: The memory for the array: a `cpu_storage`, or a writable array. None allocates new memory.

        Returns:
            The sound, (channels, samples), float32 or int16.

        Raises:
            IndexError: If the sound ends before `start`. If the part has no sample (also a `ValueError`).
            RuntimeError: If the file cannot be read or decoded, or the storage is too small.
            TypeError, ValueError: If a moment has the wrong type, is negative or not a number.
        """
        first, last = (
            None if value is None or parse_moment(name, value) == math.inf else self._sample_at(name, value)
            for name, value in (("start", start), ("stop", stop))
        )
        if first is None:
            refuse(ValueError, "start", "a moment within the sound", start)
        return self.read_samples(first, last, storage=storage)

    def read_samples(self, start: int = 0, stop: int | None = None, *, storage: Storage | None = None) -> CPUBuffer:
        """Read the samples from one on, up to before another, counted as they come out: at `sample_rate`.

        Args:
            start: The first sample.
            stop: The first sample that is not read any more. None, and all numbers beyond the end, are the end.
            storage: The memory for the array: a `cpu_storage`, or a writable array. None allocates new memory.

        Returns:
            The sound, (channels, samples), float32 or int16.

        Raises:
            IndexError: If the sound ends before `start`.
            RuntimeError: If the file cannot be read or decoded, its packets have other samples than they say, or the
                storage is too small.
            TypeError, ValueError: If a number is not an int or negative, or `stop` is not beyond `start`.
        """
        start = check_int("start", start, least=0)
        if stop is not None and check_int("stop", stop, least=0) <= start:
            refuse(ValueError, "stop", f"beyond `start`, which is {start}", stop)
        if start == 0 and stop is None:
            return self._decode(None, None, "", self._memory(storage, None))
        count = self.num_samples
        if start >= count:
            refuse(IndexError, "start", f"before the end of the sound, which has {count} samples", start)
        stop = count if stop is None else min(stop, count)
        memory = self._memory(storage, stop - start)
        place, samples, rate = self._extent()
        if rate == self.sample_rate:
            found = self._decode(Fraction(place + start, rate), Fraction(place + stop, rate), "", memory)
        else:
            begin, end = self._around(start, stop, rate)
            skipped = begin * self.sample_rate // rate
            cut = f"atrim=start_sample={start - skipped}:end_sample={stop - skipped}"
            bound = None if end >= samples else Fraction(place + end, rate)
            found = self._decode(Fraction(place + begin, rate), bound, cut, memory)
        if found.shape[1] != stop - start:
            raise RuntimeError(
                f"{self._name}: samples {start} to {stop} cannot be read: decoding gives {found.shape[1]}, as times in "
                f"the file go back, or it is damaged. `load_audio` gives all that there is"
            )
        return found

    def close(self) -> None:
        """Close the file. Reading is then an error."""
        self._demuxer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"AudioReader({self._name!r}, sample_rate={self.sample_rate}, num_channels={self.num_channels}, "
            f"codec={self._codec.name!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if hasattr(self._src, "read"):
            msg = "an AudioReader of an open file cannot be pickled: make it of a path, or of the file's content"
            raise TypeError(msg)
        return _open_again, (self._src, self._config, self._stored_extent, self._resampled)

    def _extent(self) -> tuple[int, int, int]:
        """Return the place of the first sample, the number of samples, and the rate, all as stored."""
        if self._stored_extent is None:
            demuxer = self._demuxer
            self._stored_extent = demuxer.native().measure_sound(demuxer.audio_stream_index, self._decode_options)
        return self._stored_extent

    def _sample_at(self, name: str, value: Seconds) -> int:
        moment = parse_moment(name, value)
        if moment < 0:
            refuse(ValueError, name, "a moment that is not negative", value)
        return math.ceil(moment * self.sample_rate)

    def _aligned(self, sample: int, rate: int) -> int:
        """Return the last sample up to this one at which the resampler has the same phase as at the first one."""
        period = rate // math.gcd(rate, self.sample_rate)
        return sample // period * period

    def _around(self, start: int, stop: int, rate: int) -> tuple[int, int]:
        """Return the stored samples that the resampler needs for a part of what it gives."""
        margin = _FILTER_SIZE * max(1, math.ceil(rate / self.sample_rate))
        begin = self._aligned(max(0, start * rate // self.sample_rate - margin), rate)
        return begin, -(-stop * rate // self.sample_rate) + margin

    def _memory(self, storage: Storage | None, count: int | None) -> Any:
        """Return the storage as native code takes it. None samples are all."""
        if storage is None:
            return None
        return resolve_storage(storage, (self.num_channels, count or self.num_samples), self._config["dtype"])

    def _decode(self, start: Fraction | None, end: Fraction | None, cut: str, memory: Any) -> CPUBuffer:
        window = (
            None
            if start is None and end is None
            else (-math.inf if start is None else start, math.inf if end is None else end)
        )
        resample = self._config["sample_rate"] not in (None, self._codec.sample_rate)
        filters = get_audio_filter_desc(
            sample_rate=self._config["sample_rate"] if resample else None,
            num_channels=self._config["num_channels"],
            sample_fmt=_FORMATS[self._config["dtype"]],
            filter_desc=cut or None,
        )
        demuxer = self._demuxer
        packets = demuxer.native().demux(
            demuxer.audio_stream_index, *parse_window("window", window), counts_samples=True
        )
        assert isinstance(packets, native.AudioPackets)
        frames = native.decode_av(packets, filters_of(filters, audio=True), self._decode_options, -1, fills_gaps=True)
        return native.convert_av(frames, memory)


def _open_again(
    src: Any, config: dict[str, Any], extent: tuple[int, int, int] | None, resampled: int | None
) -> AudioReader:
    reader = AudioReader(src, **config)
    reader._stored_extent, reader._resampled = extent, resampled  # noqa: SLF001 - what this class knows of the file.
    return reader
