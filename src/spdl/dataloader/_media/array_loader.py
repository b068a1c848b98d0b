"""A ready-made loader of labelled arrays: whole files, or rows of large ones."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import check_iterable, check_str, refuse, refuse_set
from spdl._not_here import MEDIA_WORDS, refuses
from spdl.dataloader._loader.batches import LabelledBatch
from spdl.dataloader._loader.epoch_loader import pick
from spdl.dataloader._loader.sample_loader import SHARED_BY_SAMPLES, OnError
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.array_reader import ArrayReader, ArrayRow
from spdl.dataloader._media.media_loader import MediaLoader
from spdl.dataloader._media.sample_fields import RaggedLayout, shapes_of, to_array
from spdl.io import load_npz
from spdl.source import ArraySample, EpochOrder
from spdl.source._shared import Samples, fingerprint

if TYPE_CHECKING:
    import numpy as np


Table: TypeAlias = str | os.PathLike[str] | bytes | Mapping[str, Any]

_ACCEPTED = "an npz file (a path or bytes), arrays by their names, or a list of these"


class _LoadedTable(NamedTuple):
    name: str
    arrays: dict[str, np.ndarray[Any, Any]]


class ArrayRows(Samples[ArraySample]):
    """The samples of npz files that hold many each, such as ``mnist.npz``: a sample is a row of every array.

    It is a sequence of `spdl.source.ArraySample` records, and a source of `ArrayLoader`, whose `data` and `label` say
    which array is which. A batch is gathered from the arrays by one operation for each. The arrays of an uncompressed
    file are views of the mapped file, which is read only where rows are asked for. Arrays of a compressed file are
    inflated and kept in memory.

    Args:
        files: An npz file, as a path or as bytes; or arrays by their names, such as what ``numpy.load`` returns or
            ``{"image": spdl.io.load_npy("images.npy")}``; or a list of these, whose rows follow each other.
        names: The names of the arrays to take. None takes all, which must then have equally many rows.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is no row, an array is missing or has no rows, the arrays of a file have not equally many,
            or files differ in names, dtypes or shapes of rows.
        FormatError: If a file is damaged or truncated.
        OSError: If one cannot be mapped.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from spdl.dataloader import ArrayLoader, ArrayRows
        >>> from spdl.io import save_npz
        >>> file = io.BytesIO()
        >>> save_npz(file, {"x": np.arange(12).reshape(3, 2, 2), "y": np.array([0, 1, 0])})
        >>> rows = ArrayRows(file.getvalue())
        >>> for data, labels in ArrayLoader(rows, 2, data="x", label="y", output="numpy"):
        ...     print(data.shape, labels)
        (2, 2, 2) [0 1]
        (1, 2, 2) [0]
    """

    _called = "rows"

    def __init__(self, files: Table | Iterable[Table], *, names: Iterable[str] | None = None) -> None:
        self._files: list[Any] = _to_list(files)
        self._names = _to_names(names)
        self._parts = self._load()
        # Other objects with arrays by their names, such as an open file, cannot be pickled.
        self._files = [
            part.arrays if isinstance(file, Mapping) else file
            for file, part in zip(self._files, self._parts, strict=True)
        ]
        sizes = (len(next(iter(part.arrays.values()))) for part in self._parts)
        self._starts = list(accumulate(sizes, initial=0))
        if not self._starts[-1]:
            refuse(ValueError, "files", "arrays with rows", files)

    def fingerprint(self) -> str:
        """Return a short text that identifies the rows, their arrays and their order, wherever the files are."""

        def describe(index: int) -> str:
            part, position = self._locate(index)
            return f"{os.path.basename(self._parts[part].name)}[{position}]"  # noqa: PTH119 - a name of any kind.

        return fingerprint("ArrayRows", len(self), describe, [str(shapes_of(self._parts[0].arrays))])

    def __len__(self) -> int:
        return self._starts[-1]

    def _sample(self, position: int) -> ArraySample:
        number, row = self._locate(position)
        part = self._parts[number]
        return ArraySample(ArrayRow(part.arrays, row), None, f"{part.name}[{row}]", position)

    def __getstate__(self) -> dict[str, Any]:
        # Files are mapped again; a user's arrays are copied once.
        return {**self.__dict__, "_parts": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = self._load()

    def __repr__(self) -> str:
        return f"ArrayRows: {len(self)} rows of {', '.join(self._parts[0].arrays)}"

    def _locate(self, position: int) -> tuple[int, int]:
        part = bisect_right(self._starts, position) - 1
        return part, position - self._starts[part]

    def _load(self) -> list[_LoadedTable]:
        parts = [_read(number, file, self._names) for number, file in enumerate(self._files)]
        first = parts[0]
        for part in parts[1:]:
            if shapes_of(part.arrays) != shapes_of(first.arrays):
                accepted = f"files whose rows are alike: those of {first.name} are {shapes_of(first.arrays)}"
                refuse(ValueError, "files", accepted, f"{part.name}: {shapes_of(part.arrays)}")
        return parts


def _to_list(files: Any) -> list[Any]:
    if isinstance(files, str | bytes | os.PathLike | Mapping):
        return [files]
    check_iterable("files", files, _ACCEPTED)
    refuse_set("files", files)
    found = list(files)
    if not found:
        refuse(ValueError, "files", "at least one file", files)
    for number, file in enumerate(found):
        if not isinstance(file, str | bytes | os.PathLike | Mapping):
            refuse(TypeError, f"files[{number}]", "an npz file (a path or bytes), or arrays by their names", file)
    return found


def _to_names(names: Any) -> list[str] | None:
    if names is None:
        return None
    accepted = "a list of names of arrays, or None"
    if isinstance(names, str | bytes):
        refuse(TypeError, "names", accepted, names)
    check_iterable("names", names, accepted)
    found = list(names)
    if not found or not all(isinstance(name, str) for name in found):
        refuse(ValueError if not found else TypeError, "names", accepted, names)
    return found


def _read(number: int, file: Any, names: list[str] | None) -> _LoadedTable:
    name = os.fsdecode(file) if isinstance(file, str | os.PathLike) else f"files[{number}]"
    given: Mapping[str, Any] = file if isinstance(file, Mapping) else load_npz(file)
    wanted = list(given) if names is None else names
    if missing := [each for each in wanted if each not in given]:
        refuse(ValueError, "names", f"names of arrays of {name}, such as {', '.join(map(repr, given))}", missing)
    arrays = {}
    for each in wanted:
        array = to_array(given[each])
        if array is None or not array.ndim or array.dtype.hasobject:
            refuse(ValueError, "files", "arrays with a row for each sample", f"{each!r} of {name}", _REMEDY)
        arrays[each] = array
    counts = {each: len(array) for each, array in arrays.items()}
    if len(set(counts.values())) > 1:
        refuse(ValueError, "files", "arrays with equally many rows", f"{counts} in {name}", _REMEDY)
    if not arrays:
        refuse(ValueError, "files", "files with arrays", name)
    return _LoadedTable(name, arrays)


_REMEDY = "`names` says which arrays to take."


class ArrayLoader(MediaLoader[LabelledBatch]):
    """A loader of npz and npy files, of the rows of large arrays, or of any files: shuffled, shared among ranks.

    It works as `ImageLoader` does, but on arrays: order, ranks, failures, state and everything else that is not said
    here is the same. A batch is a `LabelledBatch`: it unpacks as ``data, label``, and all other arrays of the files are
    fields by their names. One native call copies or inflates the arrays of all npz files of a batch into their rows,
    without the GIL. Numbers of a file are in this machine's order of bytes, whichever the file has. No tensor holds
    texts, dates or records: with ``output="torch"``, a field of such arrays is a list with one for each sample.

    Args:
        source: The samples: an `spdl.source.ArrayFolder`, `ArrayRows`, or a sequence of paths or bytes of npz or npy
            files, of pairs (file, label), or of records with a field ``file``. All have the same names, shapes and
            dtypes, except where `ragged` and `transform` let them differ; texts may differ in length. In place of a
            file there may be arrays by their names, and with `load` anything.
        batch_size: The samples of a batch of one rank.
        data: The name of the array that a batch unpacks first. The array of an npy file is taken to have it.
        label: The name of the array with the labels. If files have none, the samples' labels are used. None
            always takes these. Labels that are whole numbers become int64.
        load: A function that loads one sample with any library: it gets the sample's `file`, whatever that is, and
            returns an array or a tensor, which is the data, or a mapping with arrays and numbers by their names. A
            parameter that is annotated with `spdl.pipeline.ItemContext` gets that, without a position, so that a random
            part of a large array can be read alone. It runs in one thread for each batch, so in up to four at once: a
            library must bear that, and `spdl.io.FilesPerThread` gives each thread its own open files. None reads npz
            and npy files.
        ragged: The layouts of fields whose arrays may differ in shape, by their names: ``"list"``, ``"pad"``, with
            zeros to the longest first axis in the batch, or ``"offsets"``, as for `ImageLoader`. None: all have one
            shape.
        shuffle, order, seed, drop_last, even_batches, output, device: As for `ImageLoader`.
        transform: Applied to the data of each sample of a batch, a tensor or array, before they are stacked: they may
            differ in shape and dtype. Its results may not, unless `ragged` has a layout for ``"data"``; that is an
            error that names the sample. Nothing changes them, neither values nor dtype. As for `ImageLoader`, a record
            or a tuple is collated part by part, and it may have a parameter for an `spdl.pipeline.ItemContext`.
        batch_transform: Applied to each batch after that. The loop gets its result.
        on_error: How to treat files that cannot be loaded, or differ from most of their batch: ``"raise"``, ``"skip"``
            or ``"refill"``; see `ImageLoader`. With the last two, a sample for which `load` raises is one of them; the
            errors that are always raised are the same as those of a source.
        rank, world_size, num_threads, prefetch, timeout: As for `ImageLoader`.

    Raises:
        Exception: The errors of `ImageLoader`.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from spdl.dataloader import ArrayLoader
        >>> from spdl.io import save_npz
        >>> files = []
        >>> for number in range(3):
        ...     file = io.BytesIO()
        ...     save_npz(file, {"image": np.full((2, 2), number), "label": np.array(number)})
        ...     files.append(file.getvalue())
        >>> for data, labels in ArrayLoader(files, 2, output="numpy"):
        ...     print(data.shape, labels)
        (2, 2, 2) [0 1]
        (1, 2, 2) [2]
    """

    @refuses(MEDIA_WORDS)
    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        *,
        data: str = "image",
        label: str | None = "label",
        load: Callable[..., Any] | None = None,
        ragged: Mapping[str, RaggedLayout] | None = None,
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[LabelledBatch], Any] | None = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        reader = ArrayReader(
            check_str("data", data),
            None if label is None else check_str("label", label),
            load=load,
            ragged=ragged,
            transforms=transform is not None,
            on_error=on_error,
            output=output,
        )
        super().__init__(
            source,
            batch_size,
            reader,
            transform=transform,
            **pick(locals(), SHARED_BY_SAMPLES),
        )
