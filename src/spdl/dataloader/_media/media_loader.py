"""The common part of the loaders of labelled media: how media are read, and made into batches."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from spdl._check import refuse, show, shown_place
from spdl.dataloader._loader.batches import LabelledBatch
from spdl.dataloader._loader.epoch_loader import Batch, pick
from spdl.dataloader._loader.failures import SampleFailure, UserCode, describe_failures, transform_batch
from spdl.dataloader._loader.sample_loader import MADE_WITH, Maker, SampleLoader
from spdl.dataloader._loader.tensors import OutputKind, to_torch
from spdl.dataloader._media.sample_fields import gather, shapes_of, to_array, to_columns
from spdl.dataloader._media.sample_transform import SampleTransform
from spdl.dataloader._media.windows import NO_ONE_CASE
from spdl.io import LoadError
from spdl.io._shared import Padding
from spdl.pipeline import ItemContext
from spdl.source import EpochOrder
from spdl.source._shared import Defect, is_defect, name_of, read_apart

if TYPE_CHECKING:
    from spdl.dataloader._loader.epoch_iterator import EpochStep
    from spdl.dataloader._media.target_reader import TargetReader


class MediaReader(abc.ABC):
    """Reads the media of the samples of a batch. Several threads call it at once."""

    media: ClassVar[str]
    """The name of the media in messages."""
    batch_type: ClassVar[type[LabelledBatch]]
    """The class of batches."""
    column: ClassVar[str] = "media"
    """The field of samples that holds what is read."""
    targets: TargetReader | None = None
    """What moves with the media; None if nothing does."""

    @abc.abstractmethod
    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load the media of some samples.

        Returns new numpy arrays by the names of their fields, with a place for each sample; and the places and reasons
        of failures, which hold zeros. LoadError if all fail, and the shapes of their arrays are not known.
        """

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:  # noqa: ARG002 - for those that do.
        """Return why the sample in a place makes no sense, so that `read` cannot be asked for it; None if it does."""
        return None

    def convert(
        self,
        results: list[Any],
        fields: dict[str, Any],  # noqa: ARG002 - for those that do.
        names: Sequence[str],  # noqa: ARG002
        num_threads: int,  # noqa: ARG002
        *,
        alone: bool,  # noqa: ARG002
    ) -> Any:
        """Return what a `transform` returned in the format of batches, or raise if it cannot get that.

        `alone` says that these are whole results, one for each sample, and not parts of records or tuples.
        """
        return results

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:  # noqa: ARG002 - for those that do.
        """Change the fields of a whole batch, which are numpy arrays and lists."""
        return fields


class MediaLoader(SampleLoader[Batch]):
    """The base of `ImageLoader` and its relatives, which document the arguments."""

    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        reader: MediaReader,
        *,
        order: EpochOrder | None,
        transform: Callable[..., Any] | None,
        pad: Pad = None,
        **others: Any,
    ) -> None:
        make = partial(BatchMaker, source, reader, order, transform=transform, pad=pad, **pick(others, MADE_WITH))
        super().__init__(source, batch_size, reader.media, make, order=order, transform=transform, **others)


Pad: TypeAlias = "Iterable[str] | Mapping[str, Mapping[str, Any]] | None"

_REMEDY = (
    'Pass on_error="skip" to leave such samples out, or "refill" to put others in their place, so that all batches '
    "stay full; `failures` then lists them."
)

_Columns: TypeAlias = dict[str, list[Any]]


class BatchMaker(Maker):
    otherwise = (
        "Threads share the media of a batch and nothing else of it. Its samples are looked up one after the other, "
        "but all at once by a source with `__getitems__`; `transform` and `batch_transform` run in one thread for "
        "each batch."
    )
    in_place_of_processes = (
        '`PyTorchDataLoader(..., workers="process")` runs it in processes. Here `augment`, or options of the '
        "loader in place of `transform`, run in native code without the GIL, and `batch_transform` is called once for "
        "a whole batch."
    )

    def __init__(
        self,
        source: Sequence[Any],
        reader: MediaReader,
        order: EpochOrder | None,
        *,
        transform: Callable[..., Any] | None,
        pad: Pad,
        output: OutputKind,
        **others: Any,
    ) -> None:
        super().__init__(len(source) if order is None else order, output=output, **others)
        self._source = source
        self._reader = reader
        self.media = reader.media
        self._transform = None if transform is None else SampleTransform(transform, reader, output)
        self._paddings = _make_paddings(pad)

    def make(self, step: EpochStep, epoch: int, num_threads: int) -> tuple[Any, tuple[SampleFailure, ...]]:
        indices, positions = step.indices.tolist(), step.positions.tolist()
        columns, fields, reasons = self._load(indices, epoch, num_threads)
        failed = {place: self._note(epoch, columns, place, reason) for place, reason in reasons.items()}
        failures = list(failed.values())
        if failures and self._on_error == "raise":
            in_all = all(any(hint in each.reason for hint in NO_ONE_CASE) for each in failures)
            remedy = "" if in_all and len(failures) == len(indices) else _REMEDY
            raise LoadError(describe_failures(failures, len(indices), self._reader.media, remedy))
        if failures and self._on_error == "refill":
            left = set(reasons)

            def retry(draws: dict[int, int]) -> dict[int, SampleFailure]:
                return self._retry(columns, fields, draws, left, epoch=epoch, num_threads=num_threads)

            failures = self._replace(step, epoch, failed, retry)
        elif failures:
            loaded = [place for place in range(len(indices)) if place not in reasons]
            if not loaded:
                return None, tuple(failures)
            columns = {name: [column[place] for place in loaded] for name, column in columns.items()}
            positions = [positions[place] for place in loaded]
            fields = {name: array[loaded] for name, array in fields.items()}
        batch = self._assemble(columns, fields, failures, epoch, positions, num_threads=num_threads)
        return batch, tuple(failures)

    def _load(
        self, indices: list[int], epoch: int, num_threads: int
    ) -> tuple[_Columns, dict[str, Any], dict[int, str]]:
        """Look samples up and read them. A failed sample has None and zeros, and the reason is given for its place."""
        count = len(indices)
        samples, reasons = self._look_up(indices)
        found = [place for place in range(count) if place not in reasons]
        columns: _Columns = {name: [None] * count for name in (self._reader.column, "label", "path")}
        fields: dict[str, Any] = {}
        if found:
            numbers = [indices[place] for place in found]
            with UserCode(f"looking at the fields of the samples {show(numbers)} of {type(self._source).__name__}"):
                columns = to_columns([samples[place] for place in found], self._reader.column, numbers)
            # A native call refuses a whole batch for a sample that makes no sense, so these stay out.
            faults = [self._reader.find_fault(columns, number) for number in range(len(found))]
            reasons |= {place: fault for place, fault in zip(found, faults, strict=True) if fault}
            sensible = [place for place in found if place not in reasons]
            if sensible:
                fields, failed = self._read(_choose(columns, faults), epoch, num_threads)
                reasons |= {sensible[number]: reason for number, reason in failed.items()}
            if len(sensible) < count:
                fields = _make_room(fields, count, sensible)
            if len(found) < count:
                columns = {name: _spread(column, found, count) for name, column in columns.items()}
        return {**columns, "index": list(indices)}, fields, dict(sorted(reasons.items()))

    def _look_up(self, indices: list[int]) -> tuple[list[Any], dict[int, str]]:
        samples: list[Any] = []
        kind = type(self._source).__name__
        # A source that reads from afar has one answer to wait for, not one for each sample.
        together = callable(getattr(type(self._source), "__getitems__", None))
        for group in [indices] if together else [[index] for index in indices]:
            what = f"the samples {show(group)}" if together else f"sample {group[0]}"
            try:
                with UserCode(f"looking up {what} of {kind}"):
                    samples += self._get(group, together=together)
            except Exception as error:
                if self._on_error == "raise" and is_defect(error):
                    error.add_note(_REMEDY)
                raise
        reasons = {place: each.reason for place, each in enumerate(samples) if isinstance(each, Defect)}
        reasons |= {place: "the sample is None" for place, each in enumerate(samples) if each is None}
        return samples, reasons

    def _get(self, indices: list[int], *, together: bool) -> list[Any]:
        source: Any = self._source
        if self._on_error != "raise":
            found = read_apart(source, indices)
        else:
            found = list(source.__getitems__(indices)) if together else [source[indices[0]]]
        if len(found) != len(indices):
            raise RuntimeError(
                f"`{type(source).__name__}.__getitems__` returned {len(found)} samples for {len(indices)} positions: "
                "it must return one for each."
            )
        return found

    def _note(self, epoch: int, columns: _Columns, place: int, reason: str) -> SampleFailure:
        """Return the record of a failure, with the sample's own path or else where the source has it."""
        index, path = columns["index"][place], columns["path"][place]
        return SampleFailure(epoch, index, name_of(self._source, index) if path is None else _as_text(path), reason)

    def _read(self, columns: _Columns, epoch: int, num_threads: int) -> tuple[dict[str, Any], dict[int, str]]:
        try:
            fields, reasons = self._reader.read(columns, epoch, num_threads)
        except LoadError as error:
            return {}, {failure.index: failure.reason for failure in error.failures}
        return fields, dict(reasons)

    def _retry(
        self,
        columns: _Columns,
        fields: dict[str, Any],
        draws: dict[int, int],
        left: set[int],
        *,
        epoch: int,
        num_threads: int,
    ) -> dict[int, SampleFailure]:
        """Fill places of a batch, of which some are `left`. Return why some of the samples cannot be had."""
        count = len(columns["index"])
        others, read, again = self._load(list(draws.values()), epoch, num_threads)
        if read and not fields:
            # All have failed, so no array exists yet.
            fields.update(_make_room(read, count))
        if read and shapes_of(read) != shapes_of(fields):
            reason = f"its arrays are {shapes_of(read)}, those of the batch {shapes_of(fields)}"
            again = {**dict.fromkeys(range(len(draws)), reason), **again}
        failed = {}
        for number, (place, index) in enumerate(draws.items()):
            if number in again:
                failed[place] = self._note(epoch, others, number, again[number])
                continue
            self._check_fields(columns, others, index, settled=len(left) < count)
            for name, array in read.items():
                fields[name][place] = array[number]
            for name, column in columns.items():
                column[place] = others[name][number]
            left.remove(place)
        return failed

    def _check_fields(self, columns: _Columns, others: _Columns, index: int, *, settled: bool) -> None:
        """Take the fields of the samples that fill places in a batch, if all of its first samples have failed."""
        if columns.keys() == others.keys():
            return
        if settled:
            accepted = f"a sample with the fields {', '.join(columns)}, as others of the batch have"
            refuse(TypeError, f"source[{index}]", accepted, tuple(others))
        count = len(columns["index"])
        for name in columns.keys() - others.keys():
            del columns[name]
        for name in others:
            columns.setdefault(name, [None] * count)

    def _assemble(
        self,
        columns: _Columns,
        fields: dict[str, Any],
        failures: Sequence[SampleFailure],
        epoch: int,
        positions: list[int],
        *,
        num_threads: int,
    ) -> Any:
        indices, paths = columns["index"], columns["path"]
        done = (self._reader.column, "path", *fields, *self._paddings)
        tensors = self._output == "torch"
        rest = {name: gather(it, name=name, tensors=tensors) for name, it in columns.items() if name not in done}
        rest |= self._pad(columns, {*fields, *columns}, indices)
        everything = {**fields, **rest, "path": paths, "epoch": epoch, "failures": tuple(failures)}
        if self._transform is not None:
            names = [f"sample {index}, {_as_text(path)!r}" for index, path in zip(indices, paths, strict=True)]
            contexts = list(map(ItemContext, repeat(epoch), positions, indices))
            everything = self._transform.apply(everything, contexts, names, num_threads)
        everything = self._reader.finish(everything, epoch)
        if self._output == "torch":
            everything = to_torch(everything)
        batch = self._reader.batch_type(everything)
        return transform_batch(self._batch_transform, batch, f"the batch of the samples {show(indices)}")

    def _pad(self, columns: _Columns, taken: set[str], indices: list[int]) -> dict[str, Any]:
        padded: dict[str, Any] = {}
        for name, padding in self._paddings.items():
            mask = f"{name}_mask"
            if name not in columns or name == self._reader.column:
                refuse(ValueError, "pad", f"a field of the samples besides {self._reader.column!r}", name)
            if mask in taken:
                raise ValueError(f"`pad` adds the field {mask!r}, which the samples have already: rename it.")
            arrays = [value if (array := to_array(value)) is None else array for value in columns[name]]
            try:
                padded[name], padded[mask], _ = padding.apply(arrays)
            except (TypeError, ValueError) as error:
                error.add_note(f"spdl.dataloader was padding the field {name!r} of the samples {show(indices)}")
                raise
        return padded


def _make_paddings(pad: Pad) -> dict[str, Padding]:
    accepted = 'names of fields, or a mapping from names to arguments of spdl.io.pad, such as {"tokens": {"value": 1}}'
    if pad is None:
        return {}
    if isinstance(pad, str) or not isinstance(pad, Iterable):
        refuse(TypeError, "pad", accepted, pad)
    given = pad if isinstance(pad, Mapping) else {name: {} for name in pad}
    for name, options in given.items():
        known = isinstance(options, Mapping) and set(options) <= set(Padding._fields)
        if not isinstance(name, str) or not known:
            refuse(TypeError, "pad", accepted, pad)
    return {name: Padding(**options).checked() for name, options in given.items()}


def _as_text(path: Any) -> str | None:
    """Return a sample's path as text for messages and states. User records may have any object by this name."""
    if path is None:
        return None
    return shown_place(os.fsdecode(path) if isinstance(path, str | os.PathLike) else str(path))


def _choose(columns: _Columns, faults: list[str | None]) -> _Columns:
    if not any(faults):
        return columns
    return {
        name: [value for value, fault in zip(column, faults, strict=True) if not fault]
        for name, column in columns.items()
    }


def _spread(column: list[Any], places: list[int], count: int) -> list[Any]:
    spread: list[Any] = [None] * count
    for place, value in zip(places, column, strict=True):
        spread[place] = value
    return spread


def _make_room(read: dict[str, Any], count: int, places: Sequence[int] = ()) -> dict[str, Any]:
    fields = {name: np.zeros((count, *array.shape[1:]), array.dtype) for name, array in read.items()}
    if places:
        for name, array in read.items():
            fields[name][places] = array
    return fields
