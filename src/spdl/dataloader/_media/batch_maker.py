"""From the positions of samples to a batch: look up, read, replace what failed, transform."""

from __future__ import annotations

import os
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from spdl._check import show
from spdl.dataloader._media.columns import gather, shapes_of, to_columns
from spdl.dataloader._media.sample_failure import SampleFailure, describe_failures
from spdl.dataloader._media.user_code import UserCode
from spdl.io import LoadError
from spdl.pipeline import ItemContext
from spdl.pipeline._declare.context_parameter import context_parameter
from spdl.source import replacements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.dataloader._media.epoch_steps import Step
    from spdl.dataloader._media.media_reader import MediaReader

__all__ = ["BatchMaker", "Made", "OnError", "OutputKind"]

OnError: TypeAlias = Literal["raise", "skip", "refill"]
OutputKind: TypeAlias = Literal["torch", "numpy"]

_REFILLS = 32

_Columns: TypeAlias = dict[str, list[Any]]


class Made(NamedTuple):
    """A batch, or None if all of its samples were left out; and the samples that failed."""

    batch: Any
    failures: tuple[SampleFailure, ...]


class BatchMaker:
    """Makes batches. Several threads call it at once.

    Args:
        source: The samples.
        reader: Reads their media.
        seed: The seed of all random numbers.
        on_error: What becomes of samples that fail.
        transform: Applied to each sample's medium, or None.
        batch_transform: Applied to each batch, or None.
        output: The kind of arrays.
    """

    def __init__(
        self,
        source: Sequence[Any],
        reader: MediaReader,
        *,
        seed: int,
        on_error: OnError,
        transform: Callable[..., Any] | None,
        batch_transform: Callable[[Any], Any] | None,
        output: OutputKind,
    ) -> None:
        self._source = source
        self._reader = reader
        self._medium = reader.batch_type.medium
        self._seed = seed
        self._on_error = on_error
        self._transform = transform
        self._context = None if transform is None else context_parameter(transform)
        self._batch_transform = batch_transform
        self._output = output

    def make(self, step: Step, epoch: int, num_threads: int) -> Made:
        """Return the batch of the samples of a step.

        Raises:
            LoadError: If a sample fails and is neither to be left out nor replaced, or no replacement is found.
            Exception: Those of the source and of the transforms, with a note that names the sample.
        """
        indices, positions = step.indices, step.positions
        columns = self._look_up(indices)
        fields, reasons = self._read(columns, epoch, num_threads)
        failures = [
            SampleFailure(epoch, indices[place], _as_text(columns["path"][place]), reason)
            for place, reason in reasons.items()
        ]
        if failures and self._on_error == "raise":
            remedy = (
                'Pass on_error="skip" to leave such samples out, or "refill" to put others in their place, so that all '
                "batches stay full; `failures` then lists them."
            )
            raise LoadError(describe_failures(failures, len(indices), self._reader.media, remedy))
        if failures and self._on_error == "refill":
            failures = self._refill(columns, fields, reasons, epoch, num_threads)
        elif failures:
            kept = [place for place in range(len(indices)) if place not in reasons]
            if not kept:
                return Made(None, tuple(failures))
            columns = {name: [column[place] for place in kept] for name, column in columns.items()}
            positions = [positions[place] for place in kept]
            fields = {name: array[kept] for name, array in fields.items()}
        return Made(self._assemble(columns, fields, failures, epoch, positions), tuple(failures))

    def _look_up(self, indices: list[int]) -> _Columns:
        samples: list[Any] = []
        kind = type(self._source).__name__
        read_all = getattr(type(self._source), "__getitems__", None)
        if callable(read_all):
            # A source that reads from afar has one answer to wait for, not one for each sample.
            with UserCode(f"looking up the samples {show(indices)} of {kind}"):
                samples = list(read_all(self._source, indices))
                if len(samples) != len(indices):
                    raise RuntimeError(
                        f"`{kind}.__getitems__` returned {len(samples)} samples for {len(indices)} positions: it must "
                        "return one for each."
                    )
        else:
            for index in indices:
                with UserCode(f"looking up sample {index} of {kind}"):
                    samples.append(self._source[index])
        with UserCode(f"looking at the fields of the samples {show(indices)} of {kind}"):
            return to_columns(samples, self._reader.column, indices)

    def _read(self, columns: _Columns, epoch: int, num_threads: int) -> tuple[dict[str, Any], dict[int, str]]:
        """Read the samples. A native call refuses a whole batch for one that makes no sense, so these stay out."""
        count = len(columns["index"])
        faults = {place: fault for place in range(count) if (fault := self._reader.find_fault(columns, place))}
        if not faults:
            return self._read_sensible(columns, epoch, num_threads)
        kept = [place for place in range(count) if place not in faults]
        if not kept:
            return {}, faults
        rest = {name: [column[place] for place in kept] for name, column in columns.items()}
        read, reasons = self._read_sensible(rest, epoch, num_threads)
        fields = _make_room(read, count)
        for name, array in read.items():
            fields[name][kept] = array
        return fields, {**faults, **{kept[number]: reason for number, reason in reasons.items()}}

    def _read_sensible(self, columns: _Columns, epoch: int, num_threads: int) -> tuple[dict[str, Any], dict[int, str]]:
        try:
            fields, reasons = self._reader.read(columns, epoch, num_threads)
        except LoadError as error:
            return {}, {failure.index: failure.reason for failure in error.failures}
        return fields, dict(reasons)

    def _refill(
        self, columns: _Columns, fields: dict[str, Any], reasons: dict[int, str], epoch: int, num_threads: int
    ) -> list[SampleFailure]:
        """Put others in the place of samples that failed. Which ones depends on seed, epoch and index alone."""
        size, indices = len(self._source), columns["index"]
        others_of = {place: replacements(size, indices[place], seed=self._seed, epoch=epoch) for place in reasons}
        failed = {
            place: [SampleFailure(epoch, columns["index"][place], _as_text(columns["path"][place]), reason)]
            for place, reason in reasons.items()
        }
        noted: list[SampleFailure] = []
        for _ in range(_REFILLS):
            places = sorted(failed)
            draws = [next(others_of[place], -1) for place in places]
            if -1 in draws:
                break
            others = self._look_up(draws)
            read, again = self._read(others, epoch, num_threads)
            if read and not fields:
                # All have failed, so there is no array yet.
                fields.update(_make_room(read, len(columns["index"])))
            if read and shapes_of(read) != shapes_of(fields):
                reason = f"its arrays are {shapes_of(read)}, those of the batch {shapes_of(fields)}"
                again = {**dict.fromkeys(range(len(places)), reason), **again}
            for number, place in enumerate(places):
                if number in again:
                    path = _as_text(others["path"][number])
                    failed[place].append(SampleFailure(epoch, draws[number], path, again[number]))
                    continue
                for name, array in read.items():
                    fields[name][place] = array[number]
                for name, column in columns.items():
                    column[place] = others[name][number]
                noted += [failure._replace(replacement=draws[number]) for failure in failed.pop(place)]
            if not failed:
                return noted
        raise self._nothing_fits(list(failed.values()), len(columns["index"]))

    def _nothing_fits(self, failed: list[list[SampleFailure]], count: int) -> LoadError:
        """Return the error for samples, each with those that were tried in its place, of a batch of so many."""
        tried = max(map(len, failed)) - 1
        last = max(failed, key=len)[-1]
        remedy = "There is no other sample to put in their place."
        if tried:
            remedy = (
                f"None of {tried} other samples that were tried in their place could be loaded either, at last sample "
                f"{last.index}: {last.reason}"
            )
        return LoadError(describe_failures([each[0] for each in failed], count, self._reader.media, remedy))

    def _assemble(
        self,
        columns: _Columns,
        fields: dict[str, Any],
        failures: Sequence[SampleFailure],
        epoch: int,
        positions: list[int],
    ) -> Any:
        indices, paths = columns["index"], columns["path"]
        rest = {name: gather(it) for name, it in columns.items() if name not in (self._reader.column, "path", *fields)}
        everything = {**fields, **rest, "path": paths, "epoch": epoch, "failures": tuple(failures)}
        everything = self._reader.finish(everything, epoch)
        if self._output == "torch":
            everything = _to_torch(everything)
        if self._transform is not None:
            everything[self._medium] = self._transform_each(
                everything[self._medium], list(map(ItemContext, repeat(epoch), positions, indices)), paths
            )
        batch = self._reader.batch_type(everything)
        if self._batch_transform is None:
            return batch
        with UserCode(f"applying `batch_transform` to the batch of the samples {show(indices)}"):
            result = self._batch_transform(batch)
        if result is None:
            raise TypeError(f"`batch_transform` returned None for the batch of samples {indices}: it must return one.")
        return result

    def _transform_each(self, data: Any, contexts: list[ItemContext], paths: list[str | None]) -> Any:
        transform: Any = self._transform
        results = []
        for each, context, path in zip(data, contexts, paths, strict=True):
            with UserCode(f"transforming sample {context.index}, {path!r}"):
                results.append(transform(each, **({self._context: context} if self._context else {})))
        if self._output == "torch":
            import torch  # noqa: PLC0415 - an optional dependency.

            if all(isinstance(it, torch.Tensor) and it.shape == results[0].shape for it in results):
                return torch.stack(results)
        return gather(results)


def _as_text(path: Any) -> str | None:
    """Return a sample's path as a state can hold it. Records of the user's may have anything by this name."""
    return path if path is None else os.fsdecode(path) if isinstance(path, str | os.PathLike) else str(path)


def _make_room(read: dict[str, Any], count: int) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    return {name: np.zeros((count, *array.shape[1:]), array.dtype) for name, array in read.items()}


def _to_torch(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        import torch  # noqa: PLC0415 - an optional dependency.
    except ImportError as error:
        msg = (
            "Batches of tensors need PyTorch, which is not installed: `pip install 'spdl-turbo[torch]'`, "
            'or pass output="numpy"'
        )
        raise ImportError(msg) from error
    import numpy as np  # noqa: PLC0415

    return {name: torch.from_numpy(it) if isinstance(it, np.ndarray) else it for name, it in fields.items()}
