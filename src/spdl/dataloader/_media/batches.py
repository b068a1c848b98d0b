"""Batches of labelled media, and the samples that could not be loaded."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

_SHOWN = 5


class SampleFailure(NamedTuple):
    """A sample that a loader could not load.

    Example:
        >>> SampleFailure(epoch=0, index=7, path="7.jpg", reason="truncated", replacement=3).index
        7
    """

    epoch: int
    """The number of the epoch; in ``loader.failures`` that of the last time."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position of the sample in the source."""
    path: str | None
    """Its path or name, or its URL without what may be a secret; else where the source has it, such as
    ``"train-0000.tar/000012"``; None if it cannot say."""
    reason: str
    """What went wrong."""
    replacement: int | None = None
    """The position of the sample that took its place; None if its place was left out."""
    times: int = 1
    """How often it has failed; in ``loader.failures`` in all epochs."""


def describe_failures(failures: Sequence[SampleFailure], count: int, media: str, remedy: str) -> str:
    """Return the message of an error about failed samples of a batch."""
    lines = [f"{len(failures)} of {count} {media} of a batch could not be loaded"]
    lines += [f"  sample {each.index}, {each.path!r}: {each.reason}" for each in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "\n".join([*lines, remedy] if remedy else lines)


class LabelledBatch(tuple[Any, Any]):  # noqa: SLOT001 - fields are attributes.
    """A batch: the fields of its samples, each as an array or a list.

    It is the pair of its data and its labels, so ``for images, labels in loader`` works, as do ``batch[0]`` and
    whatever else takes such a pair. All fields are attributes, and ``batch["label"]`` is ``batch.label``. The fields of
    one sample have the same place in all of them.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import ImageBatch
        >>> batch = ImageBatch({"image": np.zeros((2, 3, 8, 8)), "label": np.array([0, 1]), "path": ["a", "b"]})
        >>> images, labels = batch
        >>> batch["label"] is batch.label is labels, batch.replace(image=images / 2).path
        (True, ['a', 'b'])
    """

    medium: ClassVar[str] = "data"
    """The name of the field with the data, which the batch unpacks as the first."""
    target: ClassVar[str] = "label"
    """The name of the field that it unpacks as the second."""
    label: Any
    """The labels as int64 or float32 (B,), arrays stacked, or a list of anything else; None without labels."""
    path: list[str | None]
    """The path or name of each sample, or None."""
    index: Any
    """The position of each sample in the source, int64 (B,)."""
    epoch: int
    """The number of the epoch."""
    failures: tuple[SampleFailure, ...]
    """The samples of this batch that failed and were left out, or replaced by others."""

    def __new__(cls, fields: Mapping[str, Any]) -> Self:
        """Make a batch of fields by their names."""
        batch = super().__new__(cls, (fields[cls.medium], fields.get(cls.target)))
        batch.__dict__.update(fields)
        return batch

    def fields(self) -> dict[str, Any]:
        """Return all fields by their names, in a new dict."""
        return dict(self.__dict__)

    def replace(self, **changes: Any) -> Self:
        """Return a batch with some fields changed or added, and the others unchanged. It never raises."""
        return type(self)({**self.__dict__, **changes})

    def to(self, device: Any, *, non_blocking: bool = False) -> Self:
        """Return the batch with its tensors on a device.

        Args:
            device: The device, as `torch.Tensor.to` takes it.
            non_blocking: Whether the call may return before copies have finished.

        Raises:
            RuntimeError: Those of PyTorch, if there is no such device.
        """
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return the batch with its tensors in pinned memory, as `torch.Tensor.pin_memory` copies them."""
        return self._map_tensors(lambda tensor: tensor.pin_memory())

    def __getitem__(self, key: Any) -> Any:
        """Return a field by its name, or by a number or a slice what the pair has there."""
        if isinstance(key, str):
            try:
                return self.__dict__[key]
            except KeyError:
                raise KeyError(f"{key!r} is not a field of this batch, which has {', '.join(self.__dict__)}") from None
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is not a field of this batch, which has {', '.join(self.__dict__)}")

    def __reduce__(self) -> Any:
        return type(self), (self.fields(),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_sketch(it)}' for name, it in self.__dict__.items())})"

    def _map_tensors(self, function: Any) -> Self:
        return type(self)(
            {name: function(it) if hasattr(type(it), "is_pinned") else it for name, it in self.__dict__.items()}
        )


class ImageBatch(LabelledBatch):
    """A batch of images, as `ImageLoader` yields it: the pair ``image, label`` with more fields.

    Example:
        >>> import numpy as np
        >>> batch = ImageBatch({"image": np.zeros((2, 3, 8, 8)), "label": np.array([0, 1]), "path": ["a", "b"]})
        >>> images, labels = batch
        >>> images is batch.image, labels.tolist(), batch["path"]
        (True, [0, 1], ['a', 'b'])
    """

    medium: ClassVar[str] = "image"
    """The name of the field with the images."""
    image: Any
    """The images, (B, C, H, W) or (B, H, W, C)."""


class ClipBatch(LabelledBatch):
    """A batch of clips of videos, as `ClipLoader` yields it: the pair ``clip, label`` with more fields.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import ClipBatch
        >>> batch = ClipBatch({"clip": np.zeros((2, 8, 3, 4, 4)), "label": [0, 1], "length": np.array([8, 5])})
        >>> clips, labels = batch
        >>> clips is batch.clip, batch.length.tolist()
        (True, [8, 5])
    """

    medium: ClassVar[str] = "clip"
    """The name of the field with the clips."""
    clip: Any
    """The pictures, (B, N, C, H, W) or (B, N, H, W, C). Places behind a short clip hold zeros, unless a `transform`
    changes them."""
    length: Any
    """How many of the N pictures of each clip are its own, int64 (B,)."""
    mask: Any
    """True where a picture is and False where zeros are, bool (B, N)."""
    window: Any
    """Where each clip begins and ends in its file in seconds, as float64 (B, 2)."""


class SoundBatch(LabelledBatch):
    """A batch of sounds, as `AudioLoader` yields it: the pair ``sound, label`` with more fields.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import SoundBatch
        >>> batch = SoundBatch({"sound": np.zeros((2, 1, 100)), "label": [0, 1], "length": np.array([100, 7])})
        >>> sounds, labels = batch
        >>> sounds is batch.sound, batch.length.tolist()
        (True, [100, 7])
    """

    medium: ClassVar[str] = "sound"
    """The name of the field with the sounds."""
    sound: Any
    """The samples, float32 (B, C, N). Places behind a short sound hold zeros."""
    length: Any
    """How many of the N samples of each sound are its own, int64 (B,)."""
    mask: Any
    """True where a sample of the sound is and False where zeros are, bool (B, N)."""
    window: Any
    """Where each sound begins and ends in its file in seconds, as float64 (B, 2)."""


def _sketch(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{getattr(value, 'dtype', '')}{list(shape)}"
    return f"<{len(value)} items>" if isinstance(value, list | tuple) else repr(value)


_MOST_LISTED = 1000


class FailureRecord(NamedTuple):
    """How often samples have failed, and which: the last 1,000. It never changes, so it can be read at any moment."""

    count: int = 0  # type: ignore[assignment]  # Shadows tuple.count, which a record does not need.
    """How often one has failed, each time counted."""
    last: tuple[SampleFailure, ...] = ()
    """An entry for each sample, in the order in which they failed first: what is known of the last time."""

    def add(self, failures: Iterable[SampleFailure]) -> FailureRecord:
        count, entries = self.count, {each.index: each for each in self.last}
        for failure in failures:
            count += failure.times
            before = entries.get(failure.index)
            entries[failure.index] = failure if before is None else failure._replace(times=before.times + failure.times)
        return FailureRecord(count, tuple(entries.values())[-_MOST_LISTED:])

    def pack(self) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {"count": self.count, "last": [list(failure) for failure in self.last]}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> FailureRecord:
        """Return the record that was packed."""
        return cls(packed["count"], tuple(SampleFailure(*each) for each in packed["last"]))


class UserCode:
    """A context in which user code is called.

    An exception passes with a note. StopIteration does not: it would end the consumer's loop as if there were no more.

    Args:
        doing: The operation and its sample, such as "looking up sample 3".
    """

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Add the note.

        Raises:
            RuntimeError: Instead of StopIteration.
        """
        if kind is not None and issubclass(kind, StopIteration):
            raise RuntimeError(
                f"StopIteration was raised while spdl.dataloader was {self._doing}, which would end the loop early and "
                "in silence. Raise IndexError or another exception."
            ) from error
        if isinstance(error, Exception):
            error.add_note(f"spdl.dataloader was {self._doing}")


_LOGGED = 10

_LOG = logging.getLogger("spdl.dataloader")


class LoaderLog:
    """Keeps what has failed in a loader, and logs it: the first samples once each, then ever fewer failures.

    Args:
        loader: The name of the loader's class.
    """

    def __init__(self, loader: str) -> None:
        self._loader = loader
        # It is replaced in one assignment: a signal handler sees it with all failures of a batch, or with none.
        self._record = FailureRecord()

    @property
    def record(self) -> FailureRecord:
        return self._record

    def note(self, failures: Sequence[SampleFailure]) -> None:
        known = {each.index for each in self._record.last}
        first = self._record.count + 1
        self._record = self._record.add(failures)
        for number, failure in enumerate(failures, first):
            # One that fails in each epoch must not hide others that come later.
            is_new = failure.index not in known and len(known) < _LOGGED
            known.add(failure.index)
            if is_new or (number > _LOGGED and not number & (number - 1)):
                instead = "left out" if failure.replacement is None else f"replaced by sample {failure.replacement}"
                text = "%s, failure %d: sample %d, %r, was %s: %s"
                _LOG.warning(text, self._loader, number, failure.index, failure.path, instead, failure.reason)

    def take_over(self, record: FailureRecord) -> None:
        """Go on with the record of another run, and count on from it."""
        self._record = record
